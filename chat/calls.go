package chat

import (
	"maps"
	"strings"
)

// calls are the tool calls of an answer under construction.
//
// Servers that follow the rules give each piece an index and, in the first
// piece, id and name. Others leave the index out, count it up with every
// piece, give all calls the same one, repeat id and name in every piece, make
// up a new id for every piece, send the name in pieces too, or send whole
// calls, some of them twice.
type calls struct {
	list    []*call
	byIndex map[int]*call // the call that last used an index
	byID    map[string]*call
	round   int // counts chunks
}

// call is one tool call under construction.
type call struct {
	ToolCall // without Name and Arguments
	name     []byte
	args     strings.Builder
	shape    shape
	pieces   int
	index    int  // of its last piece, or -1
	round    int  // the last chunk that had a piece of it
	renamed  bool // its pieces have the name and each an id of its own
}

// addAll adds the pieces of one chunk.
func (a *calls) addAll(pieces []ToolCallDelta, whole bool) {
	if len(pieces) == 0 {
		return
	}
	if whole {
		*a = calls{}
	}
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
			c.args.Reset()
			c.shape = shape{}
		}
		a.add(c, d)
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
		case c == nil && known != nil && (d.Name == "" || d.Name == string(known.name) && !known.shape.done):
			return known // an index of its own for every piece
		case c == nil:
			if c = a.last(); c != nil && c.goesOn(d) && !blank(d.Arguments) {
				return c // likewise, and not even an id that tells
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
	// Neither index nor a known id: its place tells among several, order alone.
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

// goesOn reports whether the piece can only be more of c, whatever its id and
// index say: c's arguments have not ended, and those of a new call would begin
// with a brace. If c has had an id with every piece, what follows until its end
// is more of it in any case, and so are pieces with nothing in them.
func (c *call) goesOn(d *ToolCallDelta) bool {
	if d.Name != "" && len(c.name) > 0 && d.Name != string(c.name) {
		return false
	}
	if c.shape.depth == 0 {
		return c.renamed && blank(d.Arguments)
	}
	return c.renamed || !strings.HasPrefix(strings.TrimSpace(d.Arguments), "{")
}

// renames reports whether a piece that continues c gives it another id, beside
// the name once more.
func (c *call) renames(d *ToolCallDelta) bool {
	return d.Name != "" && d.ID != "" && c.ID != "" && d.ID != c.ID && c.goesOn(d)
}

// rename notes that c has an id with every piece. If so, a call of the same
// tool right before it that has no arguments was none, but announced c.
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
	return c.pieces == 1 && c.ID != "" && c.args.Len() == 0 && string(c.name) == string(next.name)
}

// startsAnother reports whether the piece that seems to continue c is in truth
// the beginning of a further call.
func (a *calls) startsAnother(c *call, d *ToolCallDelta) bool {
	if d.Name == "" || len(c.name) == 0 {
		return false
	}
	switch {
	case c.round == a.round:
		return d.ID == "" || d.ID != c.ID // no server cuts a call up within one chunk
	case d.Name != string(c.name):
		return c.args.Len() > 0 // until then a name may come in pieces
	case !c.shape.done || blank(d.Arguments):
		return false
	}
	return !c.repeats(d) && !(c.isPlaceholder(d) && d.ID != "")
}

// repeats reports whether the piece says the whole call once more. Two equal
// calls without ids, in two chunks and under one index, look the same.
func (c *call) repeats(d *ToolCallDelta) bool {
	return c.shape.done && (d.Name != "" || d.ID != "") && (d.ID == "" || d.ID == c.ID) && !blank(d.Arguments) &&
		strings.TrimSpace(c.args.String()) == strings.TrimSpace(d.Arguments)
}

// isPlaceholder reports whether c has no arguments but the empty object with
// which some servers open a call, and the piece brings the real ones.
func (c *call) isPlaceholder(d *ToolCallDelta) bool {
	return c.shape.done && (d.ID == "" || d.ID == c.ID) &&
		strings.HasPrefix(strings.TrimSpace(d.Arguments), "{") && strings.TrimSpace(c.args.String()) == "{}"
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
	c.args.WriteString(d.Arguments)
	c.shape.feed(d.Arguments)
	merge(&c.Extra, d.Extra)
}

// addName takes the name whole, repeated, growing, or in pieces.
func (c *call) addName(s string) {
	have := len(c.name)
	switch {
	case s == "" || have > 0 && c.args.Len() > 0:
	case len(s) >= have && s[:have] == string(c.name):
		c.name = append(c.name, s[have:]...)
	default:
		c.name = append(c.name, s...)
	}
}

// all returns the calls as they stand.
func (a *calls) all() []ToolCall {
	if len(a.list) == 0 {
		return nil
	}
	all := make([]ToolCall, len(a.list))
	for i, c := range a.list {
		all[i] = c.ToolCall
		all[i].Name = string(c.name)
		all[i].Arguments = c.args.String()
		all[i].Extra = maps.Clone(c.Extra)
	}
	return all
}

// shape follows a JSON object as it arrives, so that its end is known without
// reading it all again with every piece. It sees brackets and strings only:
// what a model writes is often not quite JSON and ends all the same.
type shape struct {
	depth    int
	inString bool
	escaped  bool
	done     bool // the object is complete and nothing but space came after it
	other    bool // it is no object, or something came after it
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
		case s.done || s.depth == 0 && b != '{':
			s.done, s.other = false, true
		case b == '"':
			s.inString = true
		case b == '{' || b == '[':
			s.depth++
		case b == '}' || b == ']':
			s.depth--
			s.done = s.depth == 0
		}
	}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
