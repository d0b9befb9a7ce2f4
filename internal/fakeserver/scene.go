package fakeserver

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/neverhang/neverhang/chat"
)

// The tools an author knows how to use.
const (
	toolRead   = "read_message"
	toolWrite  = "write"
	toolAppend = "append"
	toolSave   = "save"
)

// A scene is where an author stands: all that it knows, read afresh from the
// conversation each time it is asked.
type scene struct {
	task   task
	tools  []chat.Tool
	choice chat.ToolChoice
	serial bool // one tool call per message

	round    int         // messages of the author so far
	readings []reading   // pages read, each once, in the order of the messages
	refused  map[int]int // reads that failed, by message
	stopped  bool        // a message was out of range: there is no more to read
	wrote    bool
	appended bool
	saved    bool

	nudges    int    // messages of the user at the end, after the author stopped
	failures  int    // results at the end that were errors, in a row
	corrected bool   // the last result was an error, or the user nudged
	wants     string // the tool that the correction asks for, if any
	last      *call  // the last call
	same      int    // calls at the end that are the same as the last one
}

// A call is a tool call of the conversation with its result.
type call struct {
	chat.ToolCall
	result   string
	answered bool
}

// index returns the message that a call asks for: the argument of that name,
// or else whatever number there is.
func (c *call) index() (int, bool) {
	var args map[string]any
	if json.Unmarshal([]byte(c.Arguments), &args) != nil {
		return 0, false
	}
	if n, ok := args["index"].(float64); ok {
		return int(n), true
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if n, ok := args[name].(float64); ok {
			return int(n), true
		}
	}
	return 0, false
}

// A reading is one page of a message, as read_message gave it.
type reading struct {
	Index   int      `json:"index"`
	InRange *bool    `json:"in_range"`
	Role    string   `json:"role"`
	Text    string   `json:"text"`
	Tools   []string `json:"tools"`
	Page    int      `json:"page"`
	Pages   int      `json:"pages"`
}

// readScene reads a conversation.
func readScene(req *chat.Request) *scene {
	s := &scene{tools: req.Tools, choice: req.ToolChoice, refused: make(map[int]int)}
	s.serial = req.ParallelToolCalls != nil && !*req.ParallelToolCalls
	var calls []*call
	users := 0
	for _, m := range req.Messages {
		switch m.Role {
		case chat.RoleUser:
			if users++; users == 1 {
				s.task = readTask(text(m))
				continue
			}
			if s.round > 0 {
				s.nudges++
				s.corrected, s.wants = true, s.named(text(m), "")
			}
		case chat.RoleAssistant:
			s.round++
			s.corrected, s.wants = false, ""
			if len(m.ToolCalls) > 0 {
				s.nudges = 0
			}
			for _, c := range m.ToolCalls {
				calls = append(calls, &call{ToolCall: c})
			}
		case chat.RoleTool:
			if c := answeredBy(calls, m.ToolCallID); c != nil {
				c.answered, c.result = true, text(m)
				s.learn(c)
			}
		}
	}
	for i := len(calls) - 1; i >= 0; i-- {
		if s.last == nil {
			s.last = calls[i]
		}
		if calls[i].Name != s.last.Name || calls[i].Arguments != s.last.Arguments {
			break
		}
		s.same++
	}
	slices.SortFunc(s.readings, func(a, b reading) int {
		if a.Index != b.Index {
			return a.Index - b.Index
		}
		return a.Page - b.Page
	})
	return s
}

// answeredBy finds the call that a result belongs to: the last one with its
// id, else the first without a result.
func answeredBy(calls []*call, id string) *call {
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i].ID == id && !calls[i].answered {
			return calls[i]
		}
	}
	for _, c := range calls {
		if !c.answered {
			return c
		}
	}
	return nil
}

// learn takes in the result of a call.
func (s *scene) learn(c *call) {
	if failed(c.result) {
		s.failures++
		s.corrected, s.wants = true, s.named(c.result, c.Name)
		if i, ok := c.index(); ok && c.Name == toolRead {
			s.refused[i]++
		}
		return
	}
	s.failures = 0
	switch c.Name {
	case toolRead:
		s.read(c)
	case toolWrite:
		s.wrote = true
	case toolAppend:
		s.appended = s.wrote
		s.wrote = true
	case toolSave:
		s.saved = true
	}
}

// read takes in what read_message gave: JSON, or else the text itself.
func (s *scene) read(c *call) {
	var r reading
	// A decoder, since a harness may have put a note behind the JSON.
	if json.NewDecoder(strings.NewReader(c.result)).Decode(&r) != nil {
		r = reading{Text: c.result}
	}
	// What was asked for counts, or an answer that does not repeat it, or gets
	// it wrong, would be asked for again for ever.
	if i, ok := c.index(); ok {
		r.Index = i
	}
	var asked struct{ Page int }
	if json.Unmarshal([]byte(c.Arguments), &asked) == nil && asked.Page > 0 {
		r.Page = asked.Page
	}
	r.Page, r.Pages = max(r.Page, 1), max(r.Pages, 1)
	if r.InRange != nil && !*r.InRange {
		// Of a message that the task does not name, this says nothing new.
		s.stopped = s.stopped || len(s.task.indexes) == 0 || slices.Contains(s.task.indexes, r.Index)
		return
	}
	if !s.has(r.Index, r.Page) {
		s.readings = append(s.readings, r)
	}
}

func (s *scene) has(index, page int) bool {
	return slices.ContainsFunc(s.readings, func(r reading) bool { return r.Index == index && r.Page == page })
}

// failed reports whether a tool's result is an error.
func failed(result string) bool {
	result = strings.TrimSpace(result)
	if strings.HasPrefix(result, "{") {
		var obj struct {
			Error any   `json:"error"`
			OK    *bool `json:"ok"`
		}
		if json.NewDecoder(strings.NewReader(result)).Decode(&obj) == nil {
			return obj.Error != nil && obj.Error != "" && obj.Error != false || obj.OK != nil && !*obj.OK
		}
	}
	lower := strings.ToLower(result[:min(len(result), 64)])
	return strings.HasPrefix(lower, "error") || strings.HasPrefix(lower, "failed")
}

// called matches the advice to call a tool.
var called = regexp.MustCompile("(?i)\\b(?:call|use)\\s+(?:the\\s+)?[`\"']?([a-zA-Z0-9_-]+)")

// named finds the tool that a correction says to call: one that is offered,
// and not the one that has just failed.
func (s *scene) named(text, except string) string {
	// What the author itself sent may be quoted behind this; it is no advice.
	text, _, _ = strings.Cut(text, "You sent")
	for _, m := range called.FindAllStringSubmatch(text, -1) {
		if m[1] != except && s.offers(m[1]) {
			return m[1]
		}
	}
	return ""
}

func (s *scene) offers(tool string) bool {
	return slices.ContainsFunc(s.tools, func(t chat.Tool) bool { return t.Name == tool })
}

const (
	maxPages    = 2 // pages an author reads of a long message
	maxRefused  = 3 // failed reads of a message after which it is left out
	unboundTask = 8 // messages an author reads if the task names none
)

// A page is a part of a message to read.
type page struct{ index, page int }

// unread returns what is left to read, in order.
func (s *scene) unread() []page {
	if s.stopped {
		return nil
	}
	indexes := s.task.indexes
	if len(indexes) == 0 {
		for i := range unboundTask {
			indexes = append(indexes, i)
		}
	}
	var out []page
	for _, i := range indexes {
		if s.refused[i] >= maxRefused {
			continue
		}
		if !s.has(i, 1) {
			out = append(out, page{i, 1})
			continue
		}
		for _, r := range s.readings {
			if r.Index == i && r.Page < min(r.Pages, maxPages) && !s.has(i, r.Page+1) {
				out = append(out, page{i, r.Page + 1})
			}
		}
	}
	return out
}

// maxFailures is how many errors in a row an author takes before it gives up.
const maxFailures = 6

// next returns the tool that the author should call now, or "" if it should
// end with a text.
func (s *scene) next() string {
	switch {
	case s.choice.Mode == "none" && s.choice.Name == "":
		return ""
	case s.choice.Name != "":
		return s.choice.Name
	}
	tool := s.due()
	// Advice comes before the author's own plan, except that it first reads
	// what there is to read, and a nudge to save does not keep it from adding
	// its notes.
	early := s.nudges > 0 && s.wants == toolSave && tool == toolAppend
	if s.wants != "" && tool != toolRead && !early {
		tool = s.wants
	}
	if s.failures >= maxFailures {
		tool = ""
	}
	if tool == "" && s.choice.Mode == "required" && len(s.tools) > 0 {
		tool = s.tools[len(s.tools)-1].Name
	}
	return tool
}

// due returns the next tool of the work that is offered.
func (s *scene) due() string {
	may := func(tool string, when bool) bool { return when && s.offers(tool) }
	switch {
	case may(toolRead, len(s.unread()) > 0):
		return toolRead
	case may(toolWrite, !s.wrote):
		return toolWrite
	case may(toolAppend, !s.wrote || !s.appended && len(s.readings) > 1):
		return toolAppend
	case may(toolSave, !s.saved):
		return toolSave
	}
	return ""
}
