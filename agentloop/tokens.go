package agentloop

import "github.com/neverhang/neverhang/chat"

const (
	// tokensPerByte is assumed for text that no server has counted yet: prose takes a
	// quarter of a token for a byte, code and JSON a third.
	tokensPerByte = 1.0 / 3
	// fewestPerByte and mostPerByte bound the tokens of a text: many spaces are one
	// token, and nothing takes more than one token for a byte.
	fewestPerByte = 1.0 / 16
	mostPerByte   = 1.0
	// overhead is how many tokens a server may add to new messages, for their frames.
	overhead = 64
	// ownPrompt is how many tokens a server may add of its own: its instructions, and
	// the tools as its template writes them out. A first count may be that much too
	// large.
	ownPrompt = 4096
	// wonder: a count of more than this many times the estimate is believed only if a
	// second one confirms it.
	wonder = 4
	// enoughBytes is how much text must be added before the rate is learned from it.
	enoughBytes = 1024
	// maxDoubts is how many counts in a row may contradict what was learned.
	maxDoubts = 3
)

// A tokenEstimator estimates how many tokens a conversation takes. It learns from the
// counts of servers: it knows the tokens of the counted part, and the bytes that came
// since. A part of a count may be the server's own prompt, so the rate is learned
// from how counts grow.
//
// Some counts are wrong: some servers leave out what they had in a cache, some add up
// over a session, some err. A count is believed if it differs from the last believed
// one as the bytes allow. It is also believed if it fits to an earlier doubted count
// in that way, which confirms it. Other counts are ignored.
type tokenEstimator struct {
	at      point   // the last count that is believed
	from    point   // the one from which on they go together
	doubted point   // the one from which on they go together, but were not believed
	doubts  int     // counts in a row that were not
	rate    float64 // tokens for a byte, as learned; 0 if not yet
	ceiling int64   // tokens, by estimate, that a server has refused; 0 if none
}

// A point is a count and the bytes that it was for. The zero point is none.
type point struct {
	tokens int64
	bytes  int
}

// size estimates the tokens of a conversation of the given bytes.
func (g *tokenEstimator) size(bytes int) int64 {
	return g.at.tokens + int64(float64(bytes-g.at.bytes)*g.slope(bytes >= g.at.bytes))
}

// bytesFor is the inverse of size.
func (g *tokenEstimator) bytesFor(tokens int64) int {
	return g.at.bytes + int(float64(tokens-g.at.tokens)/g.slope(tokens >= g.at.tokens))
}

// slope is the estimated tokens of one more byte, or one byte less. It errs on the
// safe side: too many for text that is added, too few for text that is removed.
func (g *tokenEstimator) slope(more bool) float64 {
	rate := g.rate
	if rate == 0 {
		rate = tokensPerByte
	}
	if more {
		return max(rate, tokensPerByte)
	}
	return min(rate, float64(g.at.tokens)/float64(g.at.bytes))
}

// wonders reports whether the count for a conversation of the given bytes is far too
// large even with a prompt of the server's own, and no server has refused it.
func (g *tokenEstimator) wonders(bytes int) bool {
	return g.ceiling == 0 && float64(g.size(bytes)) > wonder*tokensPerByte*float64(bytes)
}

// counted notes what a server counted for a conversation of the given bytes.
func (g *tokenEstimator) counted(tokens int64, bytes int) {
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

// follows reports whether a count may be one of the same conversation later on, grown
// or shrunk.
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

// refused notes that a conversation was too large for the server. If our estimate was
// below the window, the estimate was wrong.
func (g *tokenEstimator) refused(bytes int, window int64) {
	if window > 0 && bytes > 0 && g.size(bytes) < window {
		g.at = point{window, bytes}
		g.from, g.doubted, g.doubts = g.at, point{}, 0
		g.rate = max(g.rate, float64(window)/float64(bytes))
	}
	g.ceiling = g.size(bytes)
}

// whole returns usage with the whole request in PromptTokens. Some gateways leave out
// what was read from a cache, which may be more than the rest.
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
