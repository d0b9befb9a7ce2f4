package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxToolCalls bounds the tool calls of one answer. No model makes so many. A broken
// server could send a list of them that takes many times the memory of its bytes.
const MaxToolCalls = 1024

// ErrTooManyCalls is the error of decoding and of [Assembler.Err] for an answer
// with more calls than [MaxToolCalls].
var ErrTooManyCalls = fmt.Errorf("chat: more than %d tool calls in one answer", MaxToolCalls)

// calls are the tool calls of an answer under construction.
//
// Servers that follow the rules give each piece an index and, in the first
// piece, id and name. Others leave the index out, count it up with every
// piece, give all calls the same one, repeat id and name in every piece, make
// up a new id for every piece, send the name in pieces too, or send whole
// calls, some of them twice.
type calls struct {
	list []*call

	// byIndex has the call that last used an index.
	byIndex map[int]*call
	byID    map[string]*call

	// round counts chunks.
	round   int
	tooMany bool

	// shared is set if two calls of one tool have one id.
	shared bool

	// old are the calls that came as function_call.
	old *calls
}

// call is one tool call under construction.
type call struct {
	// ToolCall is without Name and Arguments, which grow in name and args.
	ToolCall
	name   []byte
	args   growing
	shape  shape
	grown  grown
	pieces int

	// index is that of the last piece, or -1.
	index int

	// round is the last chunk that had a piece of the call.
	round int

	// renamed is set if each of its pieces has the name and another id.
	renamed bool
}

// addAll adds the pieces of one chunk.
func (a *calls) addAll(pieces []ToolCallDelta, whole bool) {
	if len(pieces) == 0 {
		return
	}
	if whole {
		*a = calls{}
	}
	if slices.ContainsFunc(pieces, isOld) {
		if a.old == nil {
			a.old = &calls{}
		}
		for i := range pieces {
			if pieces[i].Old {
				a.old.addPieces(pieces[i:i+1], whole)
			}
		}
		pieces = slices.DeleteFunc(slices.Clone(pieces), isOld)
	}
	a.addPieces(pieces, whole)
}

func isOld(d ToolCallDelta) bool { return d.Old }

func (a *calls) addPieces(pieces []ToolCallDelta, whole bool) {
	a.round++
	for i := range pieces {
		d := &pieces[i]
		c := a.find(d, i, len(pieces))
		switch {
		case c == nil || whole:
			c = nil
		case c.renames(d):
			a.rename(c)
		case a.startsAnother(c, d):
			c = nil
		case c.repeats(d):
			continue
		case c.isPlaceholder(d):
			c.args.reset()
			c.shape, c.grown = shape{}, grown{}
		}
		if c == nil && len(a.list) == MaxToolCalls {
			a.tooMany = true
			continue
		}
		a.add(c, d)
	}
	if whole {
		a.shared = false // their places in the list differ
	}
}

// find returns the call that a piece may continue, or nil if it starts one.
// pos is its place among the n pieces of its chunk.
func (a *calls) find(d *ToolCallDelta, pos, n int) *call {
	known := a.byID[d.ID]
	if d.ID == "" {
		known = nil
	}
	if d.Index >= 0 {
		c := a.byIndex[d.Index]
		switch {
		case c == nil && known != nil && known.isHead(d):
			a.shared = true
			return nil // another call of the same tool, whose id is the tool's
		case c == nil && known != nil && (d.Name == "" || d.Name == string(known.name) && !known.shape.done):
			return known // this server counts the index up with every piece
		case c == nil:
			if c = a.last(); c != nil && c.goesOn(d) && !blank(d.Arguments) {
				return c // likewise, without an id
			}
			return nil
		case d.ID == "" || c.ID == "" || d.ID == c.ID:
			return c
		case known != nil:
			return known // calls that share an index, their pieces mixed
		case d.Name != "" && !c.goesOn(d):
			return nil // a second call that claims the first one's index
		}
		return c
	}
	if known != nil {
		return known
	}
	// Neither index nor a known id: among several pieces the place decides, otherwise
	// the order.
	have := len(a.list)
	var c *call
	switch {
	case n > 1 && pos < have:
		c = a.list[max(pos, have-n+pos)]
	case n == 1:
		c = a.last()
	}
	switch {
	case c == nil || d.Name == "":
		return c
	case d.ID != "" && !c.goesOn(d):
		return nil
	case len(c.name) > 0 && d.Name != string(c.name):
		return nil
	}
	return c
}

// last returns the call that began last, or nil.
func (a *calls) last() *call {
	if len(a.list) == 0 {
		return nil
	}
	return a.list[len(a.list)-1]
}

// isHead reports whether the piece has nothing but the id and the name of c,
// which has nothing else either.
func (c *call) isHead(d *ToolCallDelta) bool {
	return c.index >= 0 && c.args.len() == 0 && d.Arguments == "" && d.Name != "" && d.Name == string(c.name)
}

// goesOn reports whether the piece must continue c, in spite of its id and index: c's
// arguments have not ended, and those of a new call would begin with a brace. Under
// the same index a brace continues c too if the arguments can take one, as a value or
// within a string. If every piece of c has had another id, all pieces until its end
// continue it, even empty ones.
func (c *call) goesOn(d *ToolCallDelta) bool {
	if d.Name != "" && len(c.name) > 0 && d.Name != string(c.name) {
		return false
	}
	if c.shape.depth == 0 {
		return c.renamed && blank(d.Arguments)
	}
	return c.renamed || !strings.HasPrefix(strings.TrimSpace(d.Arguments), "{") ||
		d.Index >= 0 && d.Index == c.index && c.shape.wantsValue()
}

// renames reports whether a piece that continues c gives it another id and repeats
// the name.
func (c *call) renames(d *ToolCallDelta) bool {
	return d.Name != "" && d.ID != "" && c.ID != "" && d.ID != c.ID && c.goesOn(d)
}

// rename notes that every piece of c has another id. Then a call of the same tool
// right before it, without arguments, was no call but announced c.
func (a *calls) rename(c *call) {
	n := len(a.list)
	if !c.renamed && n > 1 && a.list[n-1] == c && a.list[n-2].announces(c) {
		first := a.list[n-2]
		merge(&first.Extra, c.Extra)
		c.ID, c.Type, c.Extra = first.ID, firstOf(first.Type, c.Type), first.Extra
		a.byID[c.ID] = c
		if a.byIndex[first.index] == first {
			a.byIndex[first.index] = c
		}
		a.list = append(a.list[:n-2], c)
	}
	c.renamed = true
}

// announces reports whether c is nothing but an id and the name of next.
func (c *call) announces(next *call) bool {
	return c.pieces == 1 && c.ID != "" && c.args.len() == 0 && string(c.name) == string(next.name)
}

// startsAnother reports whether the piece that seems to continue c is in truth
// the beginning of a further call.
func (a *calls) startsAnother(c *call, d *ToolCallDelta) bool {
	if d.Name == "" || len(c.name) == 0 {
		return false
	}
	switch {
	case c.round == a.round && (d.ID == "" || d.ID != c.ID):
		return true // no server sends two pieces of a call in one chunk
	case d.Name != string(c.name):
		if c.args.len() == 0 && c.ID == "" && d.ID == "" {
			// Names may come in pieces, or calls without arguments one after the
			// other; servers without ids send whole calls.
			return !strings.HasPrefix(d.Name, string(c.name))
		}
		return c.args.len() > 0 // until then a name may come in pieces
	case !c.shape.done || blank(d.Arguments):
		return false
	}
	return !c.repeats(d) && !(c.isPlaceholder(d) && d.ID != "")
}

// repeats reports whether the piece repeats the whole call, even with other space
// between the tokens. Two equal calls without ids, in two chunks and under one index,
// look the same.
func (c *call) repeats(d *ToolCallDelta) bool {
	if !c.shape.done || d.ID != "" && d.ID != c.ID {
		return false
	}
	var s shape
	s.feed(d.Arguments)
	return s.done && s.size == c.shape.size && s.sum == c.shape.sum
}

// isPlaceholder reports whether c has no arguments but the empty object with
// which some servers open a call, and the piece brings the real ones.
func (c *call) isPlaceholder(d *ToolCallDelta) bool {
	return c.shape.done && c.shape.size == len("{}") && (d.ID == "" || d.ID == c.ID) &&
		strings.HasPrefix(strings.TrimSpace(d.Arguments), "{")
}

// add appends a piece to c, or to a new call if that is nil.
func (a *calls) add(c *call, d *ToolCallDelta) {
	if c == nil {
		c = &call{}
		a.list = append(a.list, c)
	}
	c.pieces++
	c.index, c.round = d.Index, a.round
	if d.Index >= 0 {
		if a.byIndex == nil {
			a.byIndex = make(map[int]*call)
		}
		a.byIndex[d.Index] = c
	}
	if c.ID == "" && d.ID != "" {
		if a.byID == nil {
			a.byID = make(map[string]*call)
		}
		a.byID[d.ID] = c
		c.ID = d.ID
	}
	c.Type = firstOf(c.Type, d.Type)
	c.addName(d.Name)
	c.args.add(d.Arguments, d.cut, false)
	c.grown.feed(d.Arguments)
	c.shape.feed(d.Arguments)
	if c.shape.done && c.args.loose {
		c.args.settle()
		c.shape = shape{} // as it would be had nothing been cut
		c.shape.feed(c.args.text())
	}
	merge(&c.Extra, d.Extra)
}

// addName takes the name whole, repeated, growing, or in pieces.
func (c *call) addName(s string) {
	have := len(c.name)
	switch {
	case s == "" || have > 0 && c.args.len() > 0:
	case len(s) >= have && s[:have] == string(c.name):
		c.name = append(c.name, s[have:]...)
	default:
		c.name = append(c.name, s...)
	}
}

// all returns the calls as they stand.
func (a *calls) all() []ToolCall {
	list := a.list
	if a.shared {
		list = slices.DeleteFunc(slices.Clone(list), a.isAnnounced)
	}
	if a.old != nil {
		list = slices.Concat(list, a.old.besides(list))
		list = list[:min(len(list), MaxToolCalls)]
	}
	if len(list) == 0 {
		return nil
	}
	all := make([]ToolCall, len(list))
	for i, c := range list {
		all[i] = c.ToolCall
		all[i].Name = string(c.name)
		all[i].Arguments = c.arguments()
		all[i].Extra = maps.Clone(c.Extra)
	}
	return all
}

// isAnnounced reports whether a call is nothing but the id and the name of
// another one: then it was no second call of that tool.
func (a *calls) isAnnounced(c *call) bool {
	other := a.byID[c.ID]
	return other != nil && other != c && c.announces(other)
}

// besides returns the calls in the old form whose tools have no call in the new form.
func (a *calls) besides(list []*call) []*call {
	if len(list) == 0 {
		return a.list
	}
	named := map[string]bool{"": true} // without a name it is a rest
	for _, c := range list {
		named[string(c.name)] = true
	}
	return slices.DeleteFunc(slices.Clone(a.list), func(c *call) bool { return named[string(c.name)] })
}

// arguments returns the joined pieces.
func (c *call) arguments() string {
	text := c.args.text()
	whole, grew := c.grown.text()
	switch {
	case !grew && !c.shape.other || json.Valid([]byte(text)):
		return text
	case grew:
		return whole
	}
	return once(text)
}

// once returns a text, or, if it is one object several times, that object. Some
// servers repeat the arguments at the end.
func once(text string) string {
	c := cursor{data: []byte(text)}
	if k, err := c.kind(); err != nil || k != '{' {
		return text
	}
	start := c.pos
	if c.skip() != nil {
		return text
	}
	first := text[start:c.pos]
	for rest := text[c.pos:]; !blank(rest); {
		var again bool
		if rest, again = strings.CutPrefix(strings.TrimSpace(rest), first); !again {
			return text
		}
	}
	return first
}

// grown follows pieces of which each begins with the one before: some proxies send
// with every piece the whole text so far. The pieces of an object that contains itself
// may look the same, so this counts only if the joined pieces are no JSON.
type grown struct {
	last   string
	pieces int
	not    bool
}

func (g *grown) feed(piece string) {
	switch {
	case g.not || piece == "":
		return
	case !strings.HasPrefix(piece, g.last):
		*g = grown{not: true}
		return
	}
	g.last = piece
	g.pieces++
}

// text returns the last piece if it is the whole.
func (g *grown) text() (string, bool) {
	return g.last, g.pieces > 1 && json.Valid([]byte(g.last))
}

// shape follows a JSON object as it arrives, so that its end is found without reading
// it again with every piece. It only looks at brackets and strings, since models often
// write text that is not quite JSON.
type shape struct {
	depth    int
	lists    uint64 // of the levels above, the innermost lowest, which are lists
	inString bool
	escaped  bool
	done     bool   // the object is complete and nothing but space came after it
	other    bool   // it is no object, or something came after it
	last     byte   // the last one that is not space between tokens
	size     int    // how many of those there were
	sum      uint64 // and their checksum
}

func (s *shape) feed(text string) {
	for i := 0; i < len(text) && !s.other; i++ {
		b := text[i]
		switch {
		case s.escaped:
			s.escaped = false
		case s.inString:
			s.escaped, s.inString = b == '\\', b != '"'
		case isSpace(b):
			continue
		case s.done || s.depth == 0 && b != '{':
			s.done, s.other = false, true
		case b == '"':
			s.inString = true
		case b == '{':
			s.depth++
			s.lists <<= 1
		case b == '[':
			s.depth++
			s.lists = s.lists<<1 | 1
		case b == '}' || b == ']':
			s.depth--
			s.lists >>= 1
			s.done = s.depth == 0
		}
		s.last = b
		s.size++
		s.sum = (s.sum ^ uint64(b)) * 1099511628211 // as FNV does
	}
}

// wantsValue reports whether a brace that comes next would begin a value within this
// object, or be text within a string.
func (s *shape) wantsValue() bool {
	return s.inString || s.last == ':' || s.lists&1 == 1 && (s.last == '[' || s.last == ',')
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
