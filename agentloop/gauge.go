package agentloop

import "github.com/neverhang/neverhang/chat"

const (
	// tokensPerByte is what is assumed of text that no server has counted yet:
	// prose takes a quarter of a token for a byte, code and JSON a third.
	tokensPerByte = 1.0 / 3
	// fewestPerByte and mostPerByte bound what text can take: spaces are counted
	// many at a time, and nothing takes more than a token for a byte.
	fewestPerByte = 1.0 / 16
	mostPerByte   = 1.0
	// overhead is what a server may add to what was added: the frames of messages.
	overhead = 64
	// ownPrompt is what a server may add of its own, so that a first count is no
	// wonder: its instructions, and the tools as its template writes them out.
	ownPrompt = 4096
	// wonder is how many times the estimate a count is that is believed only when it
	// is confirmed.
	wonder = 4
	// enoughBytes is how much has to come to learn the rate from it.
	enoughBytes = 1024
	// maxDoubts is how many counts in a row may contradict what was learned.
	maxDoubts = 3
)

// A gauge estimates how many tokens a conversation takes. It learns from what
// servers count: of the part they have counted it knows the size, of what came
// since it knows the bytes. A part of a count may be the server's own, so the rate is
// learned from how counts grow.
//
// Not every count is one: some servers leave out what they had in a cache, some add
// up over a session, some err. Believed is one that differs from the last that was as
// the bytes allow, or from one that was not, so that what is confirmed is believed
// after all. Without, it is as if nobody counted.
type gauge struct {
	at      point   // the last count that is believed
	from    point   // the one from which on they go together
	doubted point   // the one from which on they go together, but were not believed
	doubts  int     // counts in a row that were not
	rate    float64 // tokens for a byte, as learned; 0 if not yet
	ceiling int64   // tokens, by estimate, that a server has refused; 0 if none
}

// A point is a count, and of how many bytes. The zero point is none.
type point struct {
	tokens int64
	bytes  int
}

// size estimates the tokens of a conversation of the given bytes.
func (g *gauge) size(bytes int) int64 {
	return g.at.tokens + int64(float64(bytes-g.at.bytes)*g.slope(bytes >= g.at.bytes))
}

// bytesFor is the inverse of size.
func (g *gauge) bytesFor(tokens int64) int {
	return g.at.bytes + int(float64(tokens-g.at.tokens)/g.slope(tokens >= g.at.tokens))
}

// slope is what a byte more, or less, is taken to count: rather too much of what may
// come, and rather too little of what is taken away.
func (g *gauge) slope(more bool) float64 {
	rate := g.rate
	if rate == 0 {
		rate = tokensPerByte
	}
	if more {
		return max(rate, tokensPerByte)
	}
	return min(rate, float64(g.at.tokens)/float64(g.at.bytes))
}

// wonders reports whether a conversation of the given bytes is said to be far larger
// than it can be but for what a server adds, and none has refused it.
func (g *gauge) wonders(bytes int) bool {
	return g.ceiling == 0 && float64(g.size(bytes)) > wonder*tokensPerByte*float64(bytes)
}

// counted notes what a server counted for a conversation of the given bytes.
func (g *gauge) counted(tokens int64, bytes int) {
	if float64(tokens) < fewestPerByte*float64(bytes) || tokens <= 0 || bytes <= 0 {
		return // of a part, or of nothing
	}
	now := point{tokens, bytes}
	first := g.at == point{} && g.doubted == point{}
	switch {
	case first && float64(tokens) <= wonder*tokensPerByte*float64(bytes)+ownPrompt:
		g.from = now
	case now.follows(g.at):
	case now.follows(g.doubted) && now.bytes-g.doubted.bytes >= enoughBytes: // so it is
		g.from, g.rate = g.doubted, 0
	default:
		if !now.follows(g.doubted) {
			g.doubted = now
		}
		if g.doubts++; g.doubts >= maxDoubts {
			g.at, g.rate = point{}, 0
		}
		return
	}
	g.at, g.doubted, g.doubts = now, point{}, 0
	if now.bytes < g.from.bytes { // it was shrunk
		g.from = now
	}
	if more := g.at.bytes - g.from.bytes; more >= enoughBytes {
		rate := float64(g.at.tokens-g.from.tokens) / float64(more)
		g.rate = min(max(rate, fewestPerByte), mostPerByte)
	}
}

// follows reports whether a count may be that of the same conversation later on, as
// it has grown or was shrunk.
func (p point) follows(before point) bool {
	if before == (point{}) {
		return false
	}
	tokens, bytes := float64(p.tokens-before.tokens), float64(p.bytes-before.bytes)
	if bytes < 0 {
		tokens, bytes = -tokens, -bytes
	}
	return tokens >= fewestPerByte*bytes-overhead && tokens <= mostPerByte*bytes+overhead
}

// refused notes that a conversation was too large for the server. If it was
// smaller than the window by our count, then our count is wrong.
func (g *gauge) refused(bytes int, window int64) {
	if window > 0 && bytes > 0 && g.size(bytes) < window {
		g.at = point{window, bytes}
		g.from, g.doubted, g.doubts = g.at, point{}, 0
		g.rate = max(g.rate, float64(window)/float64(bytes))
	}
	g.ceiling = g.size(bytes)
}

// whole returns usage with all that was asked in PromptTokens: some gateways leave out
// what was read from a cache, and there may be more of that than of the rest.
func whole(u *chat.Usage) *chat.Usage {
	if u == nil || u.CachedTokens <= u.PromptTokens || u.PromptTokens <= 0 {
		return u
	}
	sum := *u
	if sum.TotalTokens == u.PromptTokens+u.CompletionTokens {
		sum.TotalTokens += u.CachedTokens
	}
	sum.PromptTokens += u.CachedTokens
	return &sum
}
