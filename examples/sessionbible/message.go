package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// A message is one message of a session: a user's, or one step of a model.
type message struct {
	Index   int
	Role    string
	Agent   string // the mode or sub-agent that spoke
	Model   string
	Created time.Time
	Parts   []part

	// Ended is why the message is incomplete: aborted, or a provider's error. Mostly
	// empty.
	Ended string
}

// The known kinds of parts. Everything else becomes a note.
const (
	partText      = "text"      // what the user or the model said
	partInjected  = "injected"  // text that the harness put in, file contents mostly
	partReasoning = "reasoning" // what the model thought
	partTool      = "tool"      // a tool call and its result
	partFile      = "file"      // an attachment
	partNote      = "note"      // anything else, in one line
)

// A part is one piece of a message.
type part struct {
	Kind string
	Text string // empty for tools

	// The rest is about tools.
	Tool   string
	Status string // completed, error, running, pending
	Title  string
	Input  string // JSON, compact
	Output string // the result, or the error
}

func parseMessage(index int, raw json.RawMessage) message {
	var m struct {
		Info  json.RawMessage
		Parts []json.RawMessage
	}
	_ = json.Unmarshal(raw, &m) // what cannot be read stays empty
	var info struct {
		Role, Agent, Mode, ModelID string
		Model                      struct{ ModelID string }
		Time                       struct{ Created float64 }
		Error                      *struct {
			Name string
			Data struct{ Message string }
		}
	}
	err := json.Unmarshal(m.Info, &info)
	out := message{
		Index:   index,
		Role:    firstOf(info.Role, "unknown"),
		Agent:   firstOf(info.Agent, info.Mode),
		Model:   firstOf(info.ModelID, info.Model.ModelID),
		Created: millis(info.Time.Created),
	}
	if info.Error != nil {
		out.Ended = clean(firstOf(info.Error.Name, "error"))
		if info.Error.Data.Message != "" {
			out.Ended += ": " + clean(info.Error.Data.Message)
		}
	}
	if err != nil && info.Role == "" {
		out.Parts = append(out.Parts, part{Kind: partNote, Text: "this message could not be read"})
	}
	for _, raw := range m.Parts {
		if p, ok := parsePart(raw); ok {
			out.Parts = append(out.Parts, p)
		}
	}
	return out
}

// parsePart returns false for parts without content: marks of a step's begin and end,
// and reasoning that was kept only encrypted.
func parsePart(raw json.RawMessage) (part, bool) {
	var p struct {
		Type, Text, Filename, Mime, Name, Tool string
		Synthetic                              bool
		Files                                  []string
		State                                  struct {
			Status, Title        string
			Input, Output, Error json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &p); err != nil && p.Type == "" {
		return part{Kind: partNote, Text: "a part that could not be read"}, true
	}
	text := strings.TrimSpace(clean(p.Text))
	switch p.Type {
	case "text":
		kind := partText
		if p.Synthetic {
			kind = partInjected
		}
		return part{Kind: kind, Text: text}, text != ""
	case "reasoning":
		return part{Kind: partReasoning, Text: text}, text != ""
	case "tool":
		s := p.State
		return part{
			Kind: partTool, Tool: firstOf(clean(p.Tool), "unnamed"), Status: firstOf(clean(s.Status), "unknown"),
			Title: clean(s.Title), Input: compact(s.Input),
			Output: firstOf(jsonText(s.Output), jsonText(s.Error)),
		}, true
	case "file":
		// The URL is left out: it may hold the whole file.
		return part{Kind: partFile, Text: clean(firstOf(p.Filename, "unnamed") + " (" + firstOf(p.Mime, "unknown type") + ")")}, true
	case "patch":
		return part{Kind: partNote, Text: "files changed: " + clean(strings.Join(p.Files, ", "))}, len(p.Files) > 0
	case "agent":
		return part{Kind: partNote, Text: "handed to the agent " + clean(p.Name)}, true
	case "compaction":
		return part{Kind: partNote, Text: "the conversation so far was summed up here"}, true
	case "step-start", "step-finish", "snapshot":
		return part{}, false
	}
	return part{Kind: partNote, Text: fmt.Sprintf("a part of unknown type %q", clean(p.Type))}, true
}

// jsonText returns the text of a JSON string, and any other value as it is.
func jsonText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return clean(s)
	}
	return compact(raw)
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" || json.Compact(&b, raw) != nil {
		return ""
	}
	return clean(b.String())
}

// clean drops control characters, which mean nothing in an article: colours of
// a terminal, carriage returns, zero bytes.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// said returns what the user or the model said, without injected text.
func (m *message) said() string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Kind == partText {
			if b.Len() > 0 {
				b.WriteString("\n\n")
			}
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// text returns the whole message as an agent reads it: words as they are; everything
// else after a line that says what it is, with results and file contents fenced.
func (m *message) text() string {
	var pieces []string
	for _, p := range m.Parts {
		switch p.Kind {
		case partText:
			pieces = append(pieces, p.Text)
		case partInjected:
			pieces = append(pieces, "Put in by the harness:\n"+fence(p.Text))
		case partReasoning:
			pieces = append(pieces, "Thought: "+p.Text)
		case partTool:
			pieces = append(pieces, p.toolText())
		case partFile:
			pieces = append(pieces, "Attached: "+p.Text)
		default:
			pieces = append(pieces, "Note: "+p.Text)
		}
	}
	if m.Ended != "" {
		pieces = append(pieces, "Note: the message ended early: "+m.Ended)
	}
	return strings.Join(pieces, "\n\n")
}

func (p *part) toolText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Tool %s, %s", p.Tool, p.Status)
	if p.Title != "" {
		b.WriteString(": " + p.Title)
	}
	if p.Input != "" {
		b.WriteString("\nInput:\n" + fence(p.Input))
	}
	switch {
	case p.Output != "":
		b.WriteString("\nResult:\n" + fence(p.Output))
	case p.Status == "running" || p.Status == "pending":
		b.WriteString("\nNo result: it had not ended when the session was exported.")
	}
	return b.String()
}

// fence puts text into a fence longer than any in it.
func fence(text string) string {
	mark := "~~~"
	for strings.Contains(text, mark) {
		mark += "~"
	}
	return mark + "\n" + strings.TrimSpace(text) + "\n" + mark
}
