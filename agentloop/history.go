package agentloop

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/neverhang/neverhang/chat"
)

// A history is a conversation that the strictest server accepts at any time between
// rounds: no message is empty; every tool call has a unique id, a legal name and
// arguments that are a JSON object; and exactly one result per call follows, in call
// order.
//
// Requests share its memory up to their own length. So it may grow behind them, but a
// message that changes is copied first.
type history struct {
	msgs   []chat.Message
	shared bool                // a request was made of msgs
	bytes  int                 // what msgs weigh
	ids    map[string]struct{} // all call ids in use
	made   int                 // ids invented so far

	task    *chat.Message // the first message of the user, if a summary was put into it
	summary string        // of what is left out
}

// noAnswer stands in the history for an answer without text and calls. An empty
// message may not be sent. To leave it out would put two user messages in a row, or
// one after a tool's result, which some servers refuse.
const noAnswer = "(no answer)"

// noOutput stands for an empty result, which some servers refuse.
const noOutput = "(no output)"

// noMessage stands for an empty user message.
const noMessage = "(empty message)"

// newHistory returns a valid history of the given messages. Invalid parts are mended
// or left out. msgs is not changed.
func newHistory(msgs []chat.Message) *history {
	h := &history{ids: make(map[string]struct{})}
	for i := 0; i < len(msgs); i++ {
		switch m := msgs[i]; m.Role {
		case chat.RoleAssistant:
			sent := m.ToolCalls
			switch last := h.last(); {
			case last == nil || instructs(last): // it speaks first, which some templates do not know
				h.push(chat.User(noMessage))
			case joins(last, &m):
				m.Content = joined(last.Content, m.Content)
				h.msgs = h.msgs[:len(h.msgs)-1]
				h.weigh()
			}
			calls := h.answer(m)
			if len(calls) == 0 {
				continue
			}
			h.pair(sent, calls, msgs[i+1:])
		case chat.RoleTool: // stands behind its call by now, or answers none
		case chat.RoleUser:
			h.user(m)
		case chat.RoleSystem, chat.RoleDeveloper:
			h.instruct(m)
		default:
			if m.Parts = filled(m.Parts); !empty(&m) {
				h.push(m)
			}
		}
	}
	return h
}

// after makes this conversation avoid the ids of an earlier one.
func (h *history) after(old *history) {
	maps.Copy(h.ids, old.ids)
	h.made = max(h.made, old.made)
}

// pair appends one result for each call: the first of the following messages with the
// id that the call was sent with. It need not follow directly, since a user message
// may stand between.
func (h *history) pair(sent, calls []chat.ToolCall, follow []chat.Message) {
	used := make(map[int]bool, len(calls))
	for k, c := range calls {
		i := resultOf(sent[k].ID, follow, used)
		if i < 0 {
			h.result(c.ID, chat.ToolResult("", "error: the call was interrupted, its result is unknown."))
			continue
		}
		h.result(c.ID, follow[i])
		used[i] = true
	}
}

// resultOf returns the index of the result of a call, or -1. After a message that
// makes another call with the same id, results belong to that one.
func resultOf(id string, follow []chat.Message, used map[int]bool) int {
	for i := range follow {
		m := &follow[i]
		switch {
		case m.Role == chat.RoleTool && m.ToolCallID == id && !used[i]:
			return i
		case m.Role == chat.RoleAssistant && slices.ContainsFunc(m.ToolCalls, func(c chat.ToolCall) bool { return c.ID == id }):
			return -1
		}
	}
	return -1
}

// user appends a user message so that roles alternate, as templates of some models
// demand: two in a row become one, and none follows a tool's result.
func (h *history) user(m chat.Message) {
	if m.Parts = filled(m.Parts); empty(&m) {
		m.Content, m.Parts = noMessage, nil
	}
	last := h.last()
	switch {
	case last == nil:
	case last.Role == chat.RoleTool:
		h.push(h.silent())
	case joins(last, &m):
		switch {
		case m.Content == noMessage:
		case last.Content == noMessage:
			last.Content = m.Content
		default:
			last.Content = joined(last.Content, m.Content)
		}
		h.weigh()
		return
	case last.Role == m.Role && last.Name == m.Name && len(last.Extra)+len(m.Extra) == 0:
		last.Content, last.Parts = "", slices.Concat(asParts(last), asParts(&m))
		h.weigh()
		return
	}
	h.push(m)
}

// instruct puts a system message at the head, or appends its text to the one that is
// there: templates of some models allow only one, and only there. An empty one is
// left out.
func (h *history) instruct(m chat.Message) {
	if m.Parts = filled(m.Parts); empty(&m) {
		return
	}
	if len(h.msgs) == 0 || !instructs(&h.msgs[0]) {
		h.msgs = slices.Insert(h.msgs, 0, m)
		h.weigh()
		return
	}
	head := &h.msgs[0]
	if len(head.Parts)+len(m.Parts) == 0 {
		head.Content = joined(head.Content, m.Content)
	} else {
		head.Content, head.Parts = "", slices.Concat(asParts(head), asParts(&m))
	}
	if len(m.Extra) > 0 {
		extra := maps.Clone(m.Extra)
		maps.Copy(extra, head.Extra)
		head.Extra = extra
	}
	h.weigh()
}

// instructs reports whether a message is a system or developer message.
func instructs(m *chat.Message) bool {
	return m.Role == chat.RoleSystem || m.Role == chat.RoleDeveloper
}

// push appends a message.
func (h *history) push(m chat.Message) {
	h.msgs = append(h.msgs, m)
	h.bytes += messageBytes(&m)
}

// weigh recounts the bytes of the messages.
func (h *history) weigh() {
	h.bytes = 0
	for i := range h.msgs {
		h.bytes += messageBytes(&h.msgs[i])
	}
}

func (h *history) last() *chat.Message {
	if len(h.msgs) == 0 {
		return nil
	}
	return &h.msgs[len(h.msgs)-1]
}

// joins reports whether two messages can become one by joining their text.
func joins(a, b *chat.Message) bool {
	plain := len(a.Parts)+len(b.Parts)+len(a.Extra)+len(b.Extra) == 0
	return a.Role == b.Role && a.Name == b.Name && plain && len(a.ToolCalls) == 0
}

// asParts returns the content of a message as parts.
func asParts(m *chat.Message) []chat.Part {
	switch {
	case len(m.Parts) > 0:
		return m.Parts
	case m.Content == noMessage:
		return nil
	}
	return []chat.Part{chat.TextPart(m.Content)}
}

func joined(a, b string) string {
	if blank(a) || blank(b) {
		return a + b
	}
	return a + "\n\n" + b
}

// empty reports whether a message without calls has no content.
func empty(m *chat.Message) bool {
	if _, own := m.Extra["content"]; own {
		return false
	}
	if len(m.Parts) > 0 {
		return len(filled(m.Parts)) == 0
	}
	return blank(m.Content)
}

// filled returns the parts except blank text, which some servers refuse even beside
// other parts.
func filled(parts []chat.Part) []chat.Part {
	void := func(p chat.Part) bool {
		return (p.Type == "" || p.Type == "text") && blank(p.Text) && len(p.Extra) == 0
	}
	if !slices.ContainsFunc(parts, void) {
		return parts
	}
	return slices.DeleteFunc(slices.Clone(parts), void)
}

// silent returns a message that stands for an empty answer of the model. If the
// model's other messages carry reasoning, this one carries an empty one: DeepSeek
// refuses conversations in which a message lacks it.
func (h *history) silent() chat.Message {
	m := chat.Assistant(noAnswer)
	for i := len(h.msgs) - 1; i >= 0; i-- {
		if last := &h.msgs[i]; last.Role == chat.RoleAssistant {
			if key := last.ReasoningKey; key != "content" {
				m.ReasoningKey = key
			}
			break
		}
	}
	return m
}

// answer appends a model's message, made valid, and returns its calls as they are now
// in the history. The caller must append a result for each.
func (h *history) answer(m chat.Message) []chat.ToolCall {
	m.Role, m.ToolCallID = chat.RoleAssistant, ""
	if m.Content == "" && len(m.Parts) == 0 {
		m.Content = m.Refusal
	}
	m.Refusal = ""
	m.Parts, m.Extra = filled(m.Parts), wholeExtra(m.Extra)
	calls := make([]chat.ToolCall, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		c.ID = h.uniqueID(c.ID)
		c.Name, c.Extra = legalName(c.Name), wholeExtra(c.Extra)
		if args, ok := parseArguments(c.Arguments); ok {
			c.Arguments = string(args)
		} else {
			c.Arguments = "{}"
		}
		calls[i] = c
	}
	m.ToolCalls = calls
	if len(calls) == 0 {
		m.ToolCalls = nil
		if empty(&m) || m.Content != "" && len(m.Parts) == 0 && wordless(m.Content) {
			m.Content = noAnswer
		}
	}
	h.push(m)
	return calls
}

// result appends the answer to a call.
func (h *history) result(id string, m chat.Message) {
	m.Role, m.ToolCallID, m.ToolCalls = chat.RoleTool, id, nil
	if m.Parts = filled(m.Parts); empty(&m) {
		m.Content, m.Parts = noOutput, nil
	}
	h.push(m)
}

// view returns the conversation for one request. An append to it copies.
func (h *history) view() []chat.Message {
	h.shared = true
	return slices.Clip(h.msgs)
}

// uniqueID returns id, or a new one if it is empty or in use.
func (h *history) uniqueID(id string) string {
	for {
		if id != "" {
			if _, used := h.ids[id]; !used {
				h.ids[id] = struct{}{}
				return id
			}
		}
		// Nine letters and digits: Mistral accepts nothing else.
		h.made++
		id = fmt.Sprintf("call%05d", h.made)
	}
}

// legalName replaces the characters of a name that servers refuse in a conversation.
func legalName(name string) string {
	if name == "" {
		return "unknown"
	}
	name = strings.Map(func(r rune) rune {
		if notInName(r) {
			return '_'
		}
		return r
	}, name)
	return name[:min(len(name), maxNameLen)]
}
