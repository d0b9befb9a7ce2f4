package engine

import "time"

// A Request is one demand on a [Core].
type Request struct {
	// Agent names who asks, for the books.
	Agent string

	// Key stands for the content: equal requests have equal keys. It orders
	// requests that arrive at the same moment and decides on what is drawn.
	Key uint64

	// Prompt is the prompt in pieces that can be cached.
	Prompt []Segment

	// MaxTokens bounds the answer. Zero means only the context does.
	MaxTokens int

	// Output fixes the length of the answer. Zero means it is drawn.
	Output int

	// Probe marks a server's own health check of a side. It goes straight to
	// that side's scheduler and stands in no books.
	Probe Side

	// Stream says that the client wants tokens as they come. It decides how
	// late its leaving is noticed.
	Stream bool
}

// A Segment is a piece of a prompt, such as a message.
type Segment struct {
	// Key stands for the content of this piece and of all before it.
	Key    uint64
	Tokens int
}

// A Result is how a request ended. Every request ends in exactly one way.
type Result string

// The ways to end. After Left and Aborted nobody hears of it.
const (
	Stopped Result = "stop"         // the answer is whole
	Length  Result = "length"       // it reached its bound
	Refused Result = "refused"      // the queue is full: 503
	Unready Result = "unavailable"  // 503 for everyone
	Limited Result = "rate-limited" // over a rate limit: 429
	NoQuota Result = "no-quota"     // 429 for good
	TooLong Result = "too-long"     // the prompt does not fit: 400
	Broken  Result = "broken"       // the process went away
	Failed  Result = "failed"       // the transfer failed: 500
	Aborted Result = "abort"        // the client left, and that was noticed
	Left    Result = "left"         // the client left, and it ended in another way unheard
)

// Useful reports whether somebody got a whole answer.
func (r Result) Useful() bool { return r == Stopped || r == Length }

// phase is where a request is.
type phase uint8

const (
	arriving      phase = iota
	routed              // waits in the router
	waiting             // waits for a slot, of the prefill side if there are two
	bootstrapping       // waits for a handshake, which comes before prefill
	running             // has a slot of the side it is on
	inflight            // its prompt is computed, and it waits for a place to decode
	transferring        // has that place
	lost                // taken and forgotten
	over
)

// A Call is a request that a [Core] has taken.
type Call struct {
	Request

	// Tag is the caller's own.
	Tag any

	serial uint64 // of submission
	order  uint64 // among what happens at the same moment
	nth    uint64 // of the arrivals of requests like it, from 0
	phase  phase
	w      *worker // that holds it, if any
	passed bool    // counts as under way in the router

	prompt  int // tokens of the prompt
	want    int // tokens of the answer
	reason  Result
	made    int  // tokens of the answer so far
	todo    int  // tokens left to compute before the next of the answer
	chunk   int  // of todo in the step under way
	decodes bool // the step under way makes a token of its answer
	hung    bool // holds what it has and gets no further
	counted bool // its prompt is in the counters

	cached  int // tokens of the prompt that it found cached
	refs    []*entry
	private int // tokens of memory of its own
	charged int // tokens taken from the rate limit

	arrived, began, first, last time.Duration
	sent                        time.Duration // to the decode side
	started                     bool          // began is set
	left                        bool          // by its client
	tries                       int           // waits begun, so that late events do no harm
	rates                       *Rates
}

// Cached returns how many tokens of the prompt were found in the cache.
func (c *Call) Cached() int { return c.cached }

// PromptTokens returns the tokens of the prompt.
func (c *Call) PromptTokens() int { return c.prompt }

// Made returns the tokens of the answer so far.
func (c *Call) Made() int { return c.made }

// Rates returns what the rate headers say, nil if there are no limits. It is
// set when the request is taken or refused.
func (c *Call) Rates() *Rates { return c.rates }

// An Output is something that a request gets to see.
type Output struct {
	Call *Call
	At   time.Duration

	// Taken says that the request has passed the front door: limits, queue
	// and length. It comes once, and before any tokens.
	Taken bool

	// Tokens is how many tokens of the answer came.
	Tokens int

	// End is how the request ended, empty if it has not.
	End Result
}
