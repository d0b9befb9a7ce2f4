package llmclient

import (
	"bytes"

	"github.com/neverhang/neverhang/chat"
)

const (
	// A model that has lost its way says the same over and over, until
	// something stops it. Repeats of up to maxPeriod bytes are found.
	maxPeriod = 1 << 10

	// defaultRepeatBytes is how much of nothing else is too much.
	defaultRepeatBytes = 32 << 10

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

// runaway reports whether the model has lost its way.
func (a *attempt) runaway(ch *chat.Chunk) bool {
	if a.text.limit <= 0 {
		return false
	}
	lost := a.text.feed(ch.Content) || a.text.feed(ch.Reasoning) || a.text.feed(ch.Refusal)
	for i := range ch.ToolCalls {
		lost = a.args.feed(ch.ToolCalls[i].Arguments) || lost
	}
	return lost
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
