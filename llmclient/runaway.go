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

	// defaultRepeatBytes is the default of Limits.RepeatBytes.
	defaultRepeatBytes = 32 << 10

	// mostRepeatBytes keeps multiples of the limit in the range of an int.
	mostRepeatBytes = math.MaxInt / (4 * argsPatience)

	// A model that writes comes piece by piece, at least one for so many bytes.
	// Output that comes all at once may repeat itself: it has an end.
	bytesPerPiece = 128
)

// A loopDetector looks for output that only repeats itself. The zero value with a
// limit is ready for use.
type loopDetector struct {
	limit int // bytes
	tail  []byte
	seen  int // bytes so far
	fresh int // bytes since the last look
	parts int // in how many pieces they came
}

// argsPatience is how many times as much the arguments of tools may repeat
// themselves, since files have tables and padding.
const argsPatience = 4

// A runawayDetector looks for answers that would never end. The zero value is ready for
// use.
type runawayDetector struct {
	text loopDetector
	args loopDetector
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

	// Output that comes all at once has an end, however large it is.
	countedPerPiece = 16 << 10
)

// runaway returns an error if the answer would never end. reading is how long
// the caller has been reading for the piece.
func (a *attempt) runaway(ch *chat.Chunk, reading time.Duration) error {
	d, limits := &a.answer.runaways, &a.call.client.cfg.Limits
	n := len(ch.Content) + len(ch.Reasoning) + len(ch.Refusal)
	for i := range ch.ToolCalls {
		n += len(ch.ToolCalls[i].Arguments)
	}
	a.written.Add(int64(n))
	n = min(n, countedPerPiece)
	d.size += n
	if limits.OutputTokens > 0 && d.size/answerBytesPerToken > limits.OutputTokens {
		return &runawayError{fmt.Sprintf("the model wrote more than %d tokens, at %d bytes to a token (Limits.OutputTokens)",
			limits.OutputTokens, answerBytesPerToken)}
	}
	if limits.TokensPerSecond > 0 && d.size > n { // the first piece begins it
		d.read, d.written = d.read+reading, d.written+n
		if d.read >= rateWindow {
			rate := float64(d.written) / answerBytesPerToken / d.read.Seconds()
			if rate < limits.TokensPerSecond {
				return &runawayError{fmt.Sprintf("the model wrote %.2g tokens a second for %v, less than %v (Limits.TokensPerSecond)",
					rate, round(d.read), limits.TokensPerSecond)}
			}
			d.read, d.written = 0, 0
		}
	}
	if limits.RepeatBytes <= 0 {
		return nil
	}
	d.text.limit, d.args.limit = limits.RepeatBytes, limits.RepeatBytes*argsPatience
	lost := d.text.feed(ch.Content) || d.text.feed(ch.Reasoning) || d.text.feed(ch.Refusal)
	for i := range ch.ToolCalls {
		lost = d.args.feed(ch.ToolCalls[i].Arguments) || lost
	}
	if lost {
		return &runawayError{fmt.Sprintf("the model said the same over and over for %d bytes (Limits.RepeatBytes)", limits.RepeatBytes)}
	}
	return nil
}

// feed takes a piece of output and reports whether the last limit bytes are
// one short text over and over.
func (d *loopDetector) feed(s string) bool {
	if d.seen += len(s); d.seen <= d.limit || s == "" {
		return false // most answers never get there, and cost nothing
	}
	d.take(s)
	d.parts++
	if d.fresh < d.limit/4 {
		return false
	}
	slowly := d.parts*bytesPerPiece >= d.fresh
	d.fresh, d.parts = 0, 0
	if len(d.tail) < d.limit || !slowly {
		return false
	}
	d.tail = append(d.tail[:0], d.tail[len(d.tail)-d.limit:]...)
	return repeats(d.tail)
}

func (d *loopDetector) take(s string) {
	d.fresh += len(s)
	if len(s) > d.limit {
		s = s[len(s)-d.limit:]
	}
	d.tail = append(d.tail, s...)
	if len(d.tail) > 4*d.limit {
		d.tail = append(d.tail[:0], d.tail[len(d.tail)-d.limit:]...)
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
