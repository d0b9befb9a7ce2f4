package agentloop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// journalVersion is the version of the entries below. It grows when older programs
// would misread an entry; fields that are only new are ignored by them.
const journalVersion = 2

// The kinds of entries in an agent's log. docs/journal.md describes them field
// by field.
const (
	entryBegin   = "begin"   // a process begins, or goes on with, the agent
	entryAnswer  = "answer"  // the model answered
	entryRefused = "refused" // it refused a request, which has changed what is asked
	entryIntent  = "intent"  // a tool that changes something is about to be called
	entryResult  = "result"  // a call has its result
	entryAgain   = "again"   // the agent came to an end and was started again
	entryEnd     = "end"     // the agent's end
)

// The kinds of entries in the log of the run.
const (
	entryRun     = "run"     // a process begins, or goes on with, the run
	entryEnded   = "ended"   // an agent has ended
	entryRunOver = "run_end" // all have
)

// An entry is a line of a log.
type entry struct {
	Kind string    `json:"k"`
	Time time.Time `json:"t"`

	// begin, run
	Version      int      `json:"v,omitempty"`
	Agent        string   `json:"agent,omitempty"`        // also ended
	Conversation string   `json:"conversation,omitempty"` // a hash of what the agent begins with
	Agents       []string `json:"agents,omitempty"`
	PID          int      `json:"pid,omitempty"`

	// answer, refused
	Summary bool          `json:"summary,omitempty"` // it was asked to sum up
	Message *entryMessage `json:"message,omitempty"`
	Finish  string        `json:"finish,omitempty"`
	Usage   *entryUsage   `json:"usage,omitempty"`
	Tokens  int64         `json:"tokens,omitempty"` // booked on the budget
	Guessed bool          `json:"guessed,omitempty"`
	Cost    float64       `json:"cost,omitempty"`

	// answer, intent, result: which answer of the log, from 1; 0 in version 1
	Number int `json:"n,omitempty"`

	// intent, result
	ID    string `json:"id,omitempty"`
	Tool  string `json:"tool,omitempty"`
	Text  string `json:"text,omitempty"` // what the model sees
	OK    bool   `json:"ok,omitempty"`
	Fatal bool   `json:"fatal,omitempty"`
	Took  int64  `json:"took_ms,omitempty"`
	// Uncertain: nobody knows whether the call took effect.
	Uncertain bool `json:"uncertain,omitempty"`

	// refused, result, again, end, ended
	Error    string `json:"error,omitempty"`
	Overflow bool   `json:"overflow,omitempty"`

	// again, end, ended, run_end
	Outcome Outcome         `json:"outcome,omitempty"`
	Fresh   bool            `json:"fresh,omitempty"`
	Steps   []string        `json:"steps,omitempty"`
	Missing []string        `json:"missing,omitempty"`
	Rounds  int             `json:"rounds,omitempty"`
	Draft   string          `json:"draft,omitempty"`
	Counts  map[Outcome]int `json:"counts,omitempty"`
	Stalls  int             `json:"stalls,omitempty"`
	Said    []string        `json:"explanations,omitempty"`

	version int           // of the begin before it
	written chan struct{} // run_end: closed when the log is
}

// The most frequent entries, with only the fields that they have: to skip the empty
// fields of a full entry takes longer than to encode these.
type (
	intentLine struct {
		Kind string    `json:"k"`
		Time time.Time `json:"t"`
		// the answer that asks for the call
		Number int    `json:"n"`
		ID     string `json:"id"`
		Tool   string `json:"tool"`
	}
	resultLine struct {
		Kind      string    `json:"k"`
		Time      time.Time `json:"t"`
		Number    int       `json:"n"` // as in intentLine
		ID        string    `json:"id"`
		Tool      string    `json:"tool"`
		Text      string    `json:"text,omitempty"`
		OK        bool      `json:"ok,omitempty"`
		Fatal     bool      `json:"fatal,omitempty"`
		Uncertain bool      `json:"uncertain,omitempty"`
		Took      int64     `json:"took_ms,omitempty"`
		Error     string    `json:"error,omitempty"`
	}
	answerLine struct {
		Kind    string        `json:"k"`
		Time    time.Time     `json:"t"`
		Number  int           `json:"n"`
		Summary bool          `json:"summary,omitempty"`
		Message *entryMessage `json:"message"`
		Finish  string        `json:"finish,omitempty"`
		Usage   *entryUsage   `json:"usage,omitempty"`
		Tokens  int64         `json:"tokens,omitempty"`
		Guessed bool          `json:"guessed,omitempty"`
		Cost    float64       `json:"cost,omitempty"`
	}
)

// An entryMessage is a message of the model in the journal, complete.
type entryMessage struct {
	Content      string                     `json:"content,omitempty"`
	Parts        []entryPart                `json:"parts,omitempty"`
	Reasoning    string                     `json:"reasoning,omitempty"`
	ReasoningKey string                     `json:"reasoning_key,omitempty"`
	Refusal      string                     `json:"refusal,omitempty"`
	ToolCalls    []entryCall                `json:"tool_calls,omitempty"`
	Name         string                     `json:"name,omitempty"`
	Extra        map[string]json.RawMessage `json:"extra,omitempty"`
}

type entryPart struct {
	Type  string                     `json:"type,omitempty"`
	Text  string                     `json:"text,omitempty"`
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

type entryCall struct {
	ID        string                     `json:"id,omitempty"`
	Type      string                     `json:"type,omitempty"`
	Name      string                     `json:"name,omitempty"`
	Arguments string                     `json:"arguments,omitempty"`
	Extra     map[string]json.RawMessage `json:"extra,omitempty"`
}

type entryUsage struct {
	Prompt     int64 `json:"prompt"`
	Completion int64 `json:"completion"`
	Total      int64 `json:"total"`
	Cached     int64 `json:"cached,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`
}

// answerEntry writes down an answer.
func answerEntry(ans *reply, summary bool) *answerLine {
	resp := ans.resp
	m := &resp.Message
	out := &entryMessage{
		Content: m.Content, Reasoning: m.Reasoning, ReasoningKey: m.ReasoningKey, Refusal: m.Refusal, Name: m.Name, Extra: m.Extra,
	}
	for _, p := range m.Parts {
		out.Parts = append(out.Parts, entryPart(p))
	}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, entryCall(c))
	}
	e := &answerLine{
		Kind: entryAnswer, Time: time.Now(), Summary: summary, Message: out, Finish: string(resp.FinishReason),
		Tokens: ans.bill.tokens, Guessed: ans.bill.guessed, Cost: ans.bill.cost,
	}
	if u := resp.Usage; u != nil {
		e.Usage = &entryUsage{u.PromptTokens, u.CompletionTokens, u.TotalTokens, u.CachedTokens, u.ReasoningTokens}
	}
	return e
}

// reply reads an answer, or a refusal, back.
func (e *entry) reply() reply {
	if e.Kind != entryAnswer || e.Message == nil {
		return reply{err: &recordedError{e.Error}, overflow: e.Overflow}
	}
	in := e.Message
	m := chat.Message{
		Role: chat.RoleAssistant, Content: in.Content, Reasoning: in.Reasoning, ReasoningKey: in.ReasoningKey,
		Refusal: in.Refusal, Name: in.Name, Extra: in.Extra,
	}
	for _, p := range in.Parts {
		m.Parts = append(m.Parts, chat.Part(p))
	}
	for _, c := range in.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, chat.ToolCall(c))
	}
	resp := &chat.Response{Message: m, FinishReason: chat.FinishReason(e.Finish)}
	if u := e.Usage; u != nil {
		resp.Usage = &chat.Usage{
			PromptTokens: u.Prompt, CompletionTokens: u.Completion, TotalTokens: u.Total, CachedTokens: u.Cached, ReasoningTokens: u.Reasoning,
		}
	}
	return reply{resp: resp, bill: bill{tokens: e.Tokens, guessed: e.Guessed, cost: e.Cost}}
}

// A recordedError is an error whose text was kept in a journal.
type recordedError struct{ text string }

func (e *recordedError) Error() string { return e.text }

// conversationID returns a hash of the messages that a conversation begins with.
func conversationID(msgs []chat.Message) string {
	h := sha256.New()
	for i := range msgs {
		m := &msgs[i]
		fmt.Fprintf(h, "%s\x00%s\x00%s\x00", m.Role, m.Content, m.ToolCallID)
		for _, p := range m.Parts {
			fmt.Fprintf(h, "%s\x00%s\x00", p.Type, p.Text)
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(h, "%s\x00%s\x00%s\x00", c.ID, c.Name, c.Arguments)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// readEntries reads the log of an agent, or says why it does not belong to that
// agent.
func readEntries(lines []json.RawMessage, agent, conversation string) ([]entry, error) {
	list := make([]entry, len(lines))
	version := 0
	for i, line := range lines {
		e := &list[i]
		// The version first: a line of a later version may not even decode.
		var head struct {
			K string
			V int
		}
		if err := json.Unmarshal(line, &head); err == nil && head.V > journalVersion {
			return nil, fmt.Errorf("line %d: %w: version %d, this program knows up to %d", i+1, ErrJournalVersion, head.V, journalVersion)
		}
		if err := json.Unmarshal(line, e); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if e.Kind == entryBegin {
			version = e.Version
		}
		e.version = version
		switch {
		case i == 0 && e.Kind != entryBegin:
			return nil, fmt.Errorf("line 1: %w: an entry %q, want %q", ErrJournalVersion, e.Kind, entryBegin)
		case e.Kind != entryBegin:
		case e.Version < 1:
			return nil, fmt.Errorf("line %d: %w: version %d", i+1, ErrJournalVersion, e.Version)
		case e.Agent != agent:
			return nil, fmt.Errorf("line %d: it is that of agent %q", i+1, e.Agent)
		case e.Conversation != conversation:
			return nil, fmt.Errorf("line %d: the agent had another task then, or other messages to begin with", i+1)
		}
	}
	return list, nil
}
