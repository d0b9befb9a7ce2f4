package agentloop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/neverhang/neverhang/chat"
)

// minCut is the least size in bytes of a result that is worth cutting.
const minCut = 200

// cutResults replaces the results of tools by a note, the oldest first, until enough
// returns true. Results of the last message with calls are left alone.
func (h *history) cutResults(enough func() bool) (n int) {
	last := h.lastAnswer()
	tools := make(map[string]string) // by call id
	for i := range last {
		m := &h.msgs[i]
		for _, c := range m.ToolCalls {
			tools[c.ID] = c.Name
		}
		if m.Role != chat.RoleTool || messageBytes(m) < minCut+messageOverhead {
			continue
		}
		if enough() {
			break
		}
		note := fmt.Sprintf("[this older result of %s was %d bytes and is left out to save room; call again if you need it]",
			tools[m.ToolCallID], messageBytes(m)-messageOverhead)
		h.replace(i, note)
		n++
	}
	return n
}

// cutNewest cuts about surplus bytes off the results of the last message with calls,
// most of them off the largest.
func (h *history) cutNewest(surplus int) (n int) {
	first := h.lastAnswer() + 1
	total := 0
	for i := first; i < len(h.msgs); i++ {
		if h.msgs[i].Role == chat.RoleTool {
			total += max(0, messageBytes(&h.msgs[i])-messageOverhead-minCut)
		}
	}
	if total == 0 {
		return 0
	}
	keep := max(0, float64(total-surplus-minCut*(len(h.msgs)-first))/float64(total))
	for i := first; i < len(h.msgs); i++ {
		m := &h.msgs[i]
		if m.Role != chat.RoleTool || messageBytes(m)-messageOverhead <= minCut {
			continue
		}
		text := textOf(m)
		limit := minCut + int(keep*float64(max(0, len(text)-minCut)))
		if limit >= len(text) {
			continue
		}
		h.replace(i, bounded(text, limit))
		n++
	}
	return n
}

// lastAnswer returns the index of the last message of the model, or 0.
func (h *history) lastAnswer() int {
	for i := len(h.msgs) - 1; i >= 0; i-- {
		if h.msgs[i].Role == chat.RoleAssistant {
			return i
		}
	}
	return 0
}

// replace replaces the text of a result. The first replacement copies the messages:
// requests that were sent share their memory, and an abandoned model may still read
// one.
func (h *history) replace(i int, text string) {
	if h.shared {
		h.msgs, h.shared = slices.Clone(h.msgs), false
	}
	m := &h.msgs[i]
	h.bytes -= messageBytes(m)
	*m = chat.ToolResult(m.ToolCallID, text)
	h.bytes += messageBytes(m)
}

// behind returns the range of messages that a summary may replace: after the first
// user message, up to the last rounds.
func (h *history) behind() (from, to int) {
	for from < len(h.msgs) && h.msgs[from].Role != chat.RoleUser {
		from++
	}
	from++
	rounds := 0
	for to = len(h.msgs) - 1; to > from; to-- {
		if h.msgs[to].Role == chat.RoleAssistant {
			if rounds++; rounds == 2 {
				break
			}
		}
	}
	return from, to
}

// sumUp replaces messages by a summary. It is appended to the user message before
// them, so that roles alternate, and replaces an earlier summary.
func (h *history) sumUp(from, to int, summary string) {
	msgs := slices.Clone(h.msgs[:from])
	u := &msgs[from-1]
	if h.task == nil {
		task := *u
		h.task = &task
	}
	*u, h.summary = *h.task, summary
	note := "[The older part of this conversation was summed up to save room:]\n" + summary
	if len(u.Parts) > 0 {
		u.Parts = append(slices.Clone(u.Parts), chat.TextPart(note))
	} else {
		u.Content = joined(u.Content, note)
	}
	h.msgs, h.shared = append(msgs, h.msgs[to:]...), false
	h.weigh()
}

// transcript writes messages as plain text, cut in the middle to about limit
// bytes.
func (h *history) transcript(from, to, limit int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		m := &h.msgs[i]
		fmt.Fprintf(&b, "## %s\n%s\n", m.Role, textOf(m))
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "calls %s %s\n", c.Name, c.Arguments)
		}
	}
	text := b.String()
	if half := limit / 2; len(text) > limit && half > 0 {
		text = strings.ToValidUTF8(text[:half], "") + "\n[…]\n" + strings.ToValidUTF8(text[len(text)-half:], "")
	}
	return text
}
