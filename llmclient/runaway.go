package llmclient

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/neverhang/neverhang/chat"
)

const (
	// A model that has lost its way says the same over and over, until
	// something stops it. Repeats of up to maxPeriod bytes are found.
	maxPeriod = 1 << 10

	// defaultRepeatBytes is how much of nothing else is too much.
	defaultRepeatBytes = 32 << 10

	// mostRepeatBytes keeps multiples of the limit in the range of an int.
	mostRepeatBytes = math.MaxInt / (4 * argsPatience)

	// A model that writes comes piece by piece, at least one for so many bytes.
	// What comes at once may repeat itself as it likes: it has an end.
	bytesPerPiece = 128
)

// A loopGuard looks for output that only repeats itself. The zero value with a
// limit is ready for use.
type loopGuard struct {
	limit int // bytes
	tail  []byte
	seen  int // bytes so far
	fresh int // bytes since the last look
	parts int // in how many pieces they came
}

// argsPatience is how many times more the arguments of tools may repeat
// themselves: files have tables and padding.
const argsPatience = 4

// guards look for answers that would never end. The zero value is ready for
// use.
type guards struct {
	text loopGuard
	args loopGuard
	size int // bytes of output so far

	// Since the last look at the rate.
	read    time.Duration // that the caller was reading
	written int           // bytes of output
}

// A runawayError is an answer that would never end. Its text says why.
type runawayError struct{ text string }

func (e *runawayError) Error() string { return e.text }

const (
	answerBytesPerToken = 4
	rateWindow          = time.Minute

	// What comes at once has an end, however large it is.
	countedPerPiece = 16 << 10
)

// runaway returns an error if the answer would never end. reading is how long
// the caller has been reading for the piece.
func (a *attempt) runaway(ch *chat.Chunk, reading time.Duration) error {
	g, limits := &a.answer.guards, &a.call.client.cfg.Limits
	n := len(ch.Content) + len(ch.Reasoning) + len(ch.Refusal)
	for i := range ch.ToolCalls {
		n += len(ch.ToolCalls[i].Arguments)
	}
	a.written.Add(int64(n))
	n = min(n, countedPerPiece)
	g.size += n
	if limits.OutputTokens > 0 && g.size/answerBytesPerToken > limits.OutputTokens {
		return &runawayError{fmt.Sprintf("the model wrote more than %d tokens, at %d bytes to a token (Limits.OutputTokens)",
			limits.OutputTokens, answerBytesPerToken)}
	}
	if limits.TokensPerSecond > 0 && g.size > n { // the first piece begins it
		g.read, g.written = g.read+reading, g.written+n
		if g.read >= rateWindow {
			rate := float64(g.written) / answerBytesPerToken / g.read.Seconds()
			if rate < limits.TokensPerSecond {
				return &runawayError{fmt.Sprintf("the model wrote %.2g tokens a second for %v, less than %v (Limits.TokensPerSecond)",
					rate, round(g.read), limits.TokensPerSecond)}
			}
			g.read, g.written = 0, 0
		}
	}
	if limits.RepeatBytes <= 0 {
		return nil
	}
	g.text.limit, g.args.limit = limits.RepeatBytes, limits.RepeatBytes*argsPatience
	lost := g.text.feed(ch.Content) || g.text.feed(ch.Reasoning) || g.text.feed(ch.Refusal)
	for i := range ch.ToolCalls {
		lost = g.args.feed(ch.ToolCalls[i].Arguments) || lost
	}
	if lost {
		return &runawayError{fmt.Sprintf("the model said the same over and over for %d bytes (Limits.RepeatBytes)", limits.RepeatBytes)}
	}
	return nil
}

// feed takes a piece of output and reports whether the last limit bytes are
// one short text over and over.
func (g *loopGuard) feed(s string) bool {
	if g.seen += len(s); g.seen <= g.limit || s == "" {
		return false // most answers never get there, and cost nothing
	}
	g.take(s)
	g.parts++
	if g.fresh < g.limit/4 {
		return false
	}
	slowly := g.parts*bytesPerPiece >= g.fresh
	g.fresh, g.parts = 0, 0
	if len(g.tail) < g.limit || !slowly {
		return false
	}
	g.tail = append(g.tail[:0], g.tail[len(g.tail)-g.limit:]...)
	return repeats(g.tail)
}

func (g *loopGuard) take(s string) {
	g.fresh += len(s)
	if len(s) > g.limit {
		s = s[len(s)-g.limit:]
	}
	g.tail = append(g.tail, s...)
	if len(g.tail) > 4*g.limit {
		g.tail = append(g.tail[:0], g.tail[len(g.tail)-g.limit:]...)
	}
}

// repeats reports whether b is a text of at most maxPeriod bytes repeated. It
// is linear: where the last bytes stood before gives the only candidate.
func repeats(b []byte) bool {
	n := len(b)
	probe := min(64, n/4)
	end := b[n-probe:]
	from := max(0, n-probe-maxPeriod)
	i := bytes.LastIndex(b[from:n-1], end)
	if i < 0 {
		return false
	}
	period := n - probe - (from + i)
	return bytes.Equal(b[period:], b[:n-period])
}
