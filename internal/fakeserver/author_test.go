package fakeserver_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fs "github.com/neverhang/neverhang/internal/fakeserver"
)

// session is what the articles are about.
var session = []struct{ role, text string }{
	{"user", "Please make the parser faster. It takes two minutes for a large file."},
	{"assistant", "I profiled the parser. Most of the time goes into regular expressions.\n\n```go\nvar re = regexp.MustCompile(`x`)\n```\n\nI will replace them with a hand-written scanner."},
	{"user", "Good. Does the scanner handle comments?"},
	{"assistant", "Yes: the scanner skips <comments> and *blank* lines. The tests pass."},
	{"user", ""},
}

// A harness is the smallest agent loop there is: tools, nudges, force.
type harness struct {
	t    *testing.T
	srv  *fs.Server
	req  chat.Request
	ask  func(body string) seen
	text string // the draft
	done string // the article

	rounds   int
	calls    []string // names, in order
	finishes []chat.FinishReason
	errors   int
	nudges   int
	forced   int
	last     string // the last text
}

func tool(name, params string) chat.Tool {
	return chat.Tool{Name: name, Parameters: json.RawMessage(params)}
}

const (
	noParams    = `{"type":"object","properties":{}}`
	textParams  = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
	indexParams = `{"type":"object","properties":{"index":{"type":"integer"},"page":{"type":"integer"}},"required":["index"]}`
)

func newHarness(t *testing.T, srv *fs.Server, task string) *harness {
	h := &harness{t: t, srv: srv}
	tr := transport(t, srv)
	h.ask = func(body string) seen { return ask(t, tr, srv, body, time.Hour) }
	h.req = chat.Request{
		Model:    "m",
		Messages: []chat.Message{chat.System("You write articles."), chat.User(task)},
		Tools: []chat.Tool{
			tool("read_message", indexParams), tool("write", textParams), tool("append", textParams), tool("save", noParams),
		},
	}
	return h
}

// turn asks once and answers what the model calls. It reports whether the
// model called anything.
func (h *harness) turn() bool {
	h.t.Helper()
	h.rounds++
	body, err := h.req.AppendJSON(nil, true, true)
	require.NoError(h.t, err)
	s := h.ask(string(body))
	require.NoError(h.t, s.err)
	require.Equal(h.t, 200, s.status, s.body)
	resp := assemble(h.t, s.body)
	require.NotNil(h.t, resp.Usage)
	h.finishes = append(h.finishes, resp.FinishReason)
	m := resp.Message
	h.last = m.Content
	if len(m.ToolCalls) == 0 {
		if m.Content != "" {
			h.req.Messages = append(h.req.Messages, chat.Assistant(m.Content))
		}
		return false
	}
	results := []chat.Message{}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		h.calls = append(h.calls, c.Name)
		result, err := "", error(nil)
		if resp.FinishReason == chat.FinishLength {
			err = fmt.Errorf("the message was cut off")
		} else {
			result, err = h.run(c)
		}
		if err != nil {
			h.errors++
			result = "error: " + err.Error()
		}
		if !json.Valid([]byte(c.Arguments)) || c.Arguments[0] != '{' {
			c.Arguments = "{}"
		}
		results = append(results, chat.ToolResult(c.ID, result))
	}
	h.req.Messages = append(append(h.req.Messages, m), results...)
	return true
}

func (h *harness) run(c *chat.ToolCall) (string, error) {
	var args struct {
		Index *int    `json:"index"`
		Text  *string `json:"text"`
	}
	if !slices.ContainsFunc(h.req.Tools, func(t chat.Tool) bool { return t.Name == c.Name }) {
		return "", fmt.Errorf("there is no tool %s", c.Name)
	}
	if err := json.Unmarshal([]byte(c.Arguments), &args); err != nil {
		return "", err
	}
	switch {
	case c.Name == "save" && h.text == "":
		return "", fmt.Errorf("nothing is written yet: call write first")
	case c.Name == "save":
		h.done = h.text
		return "saved", nil
	case c.Name == "read_message" && args.Index == nil:
		return "", fmt.Errorf("index is missing")
	case c.Name == "read_message":
		i := *args.Index
		out := map[string]any{"index": i, "in_range": i < len(session)}
		if i < len(session) {
			out["role"], out["text"] = session[i].role, session[i].text
		}
		b, err := json.Marshal(out)
		return string(b), err
	case args.Text == nil:
		return "", fmt.Errorf("text is missing")
	case c.Name == "write":
		h.text = *args.Text
	case c.Name == "append":
		h.text += *args.Text
	}
	return "ok", nil
}

// play runs the loop until the model stops after saving.
func (h *harness) play() {
	h.t.Helper()
	useless := 0
	for h.rounds < 60 {
		if h.turn() {
			useless = 0
			h.req.ToolChoice = chat.ToolChoice{}
			continue
		}
		if h.done != "" {
			return
		}
		useless++
		h.nudges++
		h.req.Messages = append(h.req.Messages, chat.User(`You stopped, but the step "save" is missing.`))
		if useless > 2 {
			h.forced++
			h.req.ToolChoice = chat.ToolChoiceRequired
			if h.text != "" {
				h.req.ToolChoice = chat.ForceTool("save")
			}
		}
	}
	h.t.Fatalf("not done after %d rounds: %v", h.rounds, h.calls)
}

func author(habits string, seed uint64) fs.Config {
	h, err := fs.ParseHabits(habits)
	if err != nil {
		panic(err)
	}
	return fs.Config{Script: fs.Strict(fs.Author{Habits: h, Seed: seed}.Reply)}
}

func TestAuthorWritesAnArticle(t *testing.T) {
	inMemory(t, author("none", 1), func(t *testing.T, srv *fs.Server) {
		h := newHarness(t, srv, "Write an article about messages 0 to 3 of the session.")
		h.play()
		assert.Equal(t, "read_message", h.calls[0])
		assert.Equal(t, []string{"write", "append", "save"}, h.calls[4:])
		assert.Zero(t, h.errors+h.nudges)
		assert.Equal(t, "Done. The article on messages 0 to 3 is saved.", h.last)
		assert.Equal(t, `# Please make the parser faster

## Summary

In message 0 the user says: Please make the parser faster.
In message 1 the assistant reports: I profiled the parser. Most of the time goes into regular expressions.
In message 2 the user asks: Good. Does the scanner handle comments?
In message 3 the assistant reports: Yes: the scanner skips ‹comments› and blank lines.

It turns on **scanner**, **comments**, **parser**, **blank**.

## In their words

> Please make the parser faster.
>
> — message 0, user

> I profiled the parser. Most of the time goes into regular expressions.
>
> — message 1, assistant

> Good. Does the scanner handle comments?
>
> — message 2, user

> Yes: the scanner skips ‹comments› and blank lines.
>
> — message 3, assistant

## Message by message

- **0** (user, 13 words): It takes two minutes for a large file.
- **1** (assistant, 26 words): I will replace them with a hand-written scanner.
- **2** (user, 6 words): Good. Does the scanner handle comments?
- **3** (assistant, 11 words): The tests pass.
`, h.done)
	})
}

// Where a mistake is made, the author does the right thing once it is told,
// and the article is the same as without.
func TestAuthorHabits(t *testing.T) {
	const task = "Write an article about messages 0 to 4 of the session."
	var want string
	inMemory(t, author("none", 1), func(t *testing.T, srv *fs.Server) {
		h := newHarness(t, srv, task)
		h.play()
		want = h.done
	})
	tests := map[string]struct {
		spec string
		seen func(h *harness) bool // the mistake was made
	}{
		"forgets to save":              {"forget-save=1", func(h *harness) bool { return h.nudges > 0 }},
		"forgets to save until forced": {"forget-save=1", func(h *harness) bool { return h.forced > 0 }},
		"calls a tool that does not exist": {"unknown-tool=0.5", func(h *harness) bool {
			return slices.ContainsFunc(h.calls, func(c string) bool {
				return !slices.Contains([]string{"read_message", "write", "append", "save"}, c)
			})
		}},
		"sends broken arguments": {"bad-args=0.5", func(h *harness) bool { return h.errors > 0 }},
		"answers with nothing":   {"empty=0.5", func(h *harness) bool { return h.nudges > 0 && slices.Contains(h.finishes, chat.FinishStop) }},
		"thinks only":            {"reasoning-only=0.5", func(h *harness) bool { return h.nudges > 0 }},
		"repeats itself":         {"repeat=0.5", func(h *harness) bool { return len(h.calls) > 8 }},
		"repeats itself twice":   {"repeat=0.5", func(h *harness) bool { return len(h.calls) > 9 }},
		"runs into the limit":    {"length-cut=0.5", func(h *harness) bool { return slices.Contains(h.finishes, chat.FinishLength) }},
		"has all bad habits": {"forget-save=0.3,unknown-tool=0.1,bad-args=0.1,empty=0.1,repeat=0.1,reasoning-only=0.1,length-cut=0.1",
			func(h *harness) bool { return h.nudges > 0 && h.errors > 0 }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			made := 0
			for seed := uint64(0); seed < 4 || made == 0 && seed < 40; seed++ {
				inMemory(t, author(tt.spec, seed), func(t *testing.T, srv *fs.Server) {
					h := newHarness(t, srv, task)
					h.play()
					assert.Equal(t, want, h.done, "seed %d", seed)
					if tt.seen(h) {
						made++
					}
				})
			}
			assert.Positive(t, made, "the habit never shows")
		})
	}
}

// A loop that asks again until it has a whole answer gets all articles, through
// every fault and habit.
func TestAuthorThroughFaults(t *testing.T) {
	faults, err := fs.ParseFaults("default")
	require.NoError(t, err)
	cfg := author("default", 5)
	cfg.Faults, cfg.Seed = faults, 5
	inMemory(t, cfg, func(t *testing.T, srv *fs.Server) {
		const agents = 10
		var wg sync.WaitGroup
		for i := range agents {
			h := newHarness(t, srv, fmt.Sprintf("You are agent %d. Write about messages 0 to 3.", i))
			tr := transport(t, srv)
			h.ask = func(body string) seen {
				for {
					s := ask2(t, tr, srv, body, 3*time.Second)
					if _, err := whole(s); err == nil {
						return s
					}
					time.Sleep(200 * time.Millisecond)
				}
			}
			wg.Go(func() {
				h.play()
				assert.Contains(t, h.done, "# Please make the parser faster")
				assert.Contains(t, h.done, "## Message by message")
			})
		}
		wg.Wait()
		stats := srv.Stats()
		assert.Greater(t, stats.FaultCount(), stats.Requests/4)
		for _, r := range srv.Requests() {
			assert.True(t, r.Fault != "" || r.Status == 200, "%+v", r.Reply)
		}
	})
}

// The same seed gives the same conversation, another one another.
func TestAuthorFollowsItsSeed(t *testing.T) {
	talk := func(seed uint64) string {
		var all string
		inMemory(t, author("default", seed), func(t *testing.T, srv *fs.Server) {
			h := newHarness(t, srv, "Write about messages 0-3.")
			h.play()
			b, err := json.Marshal(h.req.Messages)
			require.NoError(t, err)
			all = string(b)
		})
		return all
	}
	assert.Equal(t, talk(1), talk(1))
	assert.NotEqual(t, talk(1), talk(2))
}

func request(task string, tools ...chat.Tool) *fs.Request {
	return &fs.Request{Chat: &chat.Request{Messages: []chat.Message{chat.User(task)}, Tools: tools}, Stream: true}
}

// What the author does first, told by the name of its reply's steps.
func TestAuthorLooksAtTheRequest(t *testing.T) {
	read, write, save := tool("read_message", indexParams), tool("write", textParams), tool("save", noParams)
	tests := map[string]struct {
		req  *fs.Request
		want string
		not  string
	}{
		"reads what the task names":         {request("about message 7", read, write, save), `call(read_message "{\"index\":7}")`, "write"},
		"uses the schema's names":           {request("about message 7", tool("read_message", `{"properties":{"n":{"type":"integer"},"session":{"type":"string"}},"required":["n","session"]}`)), `"{\"n\":7,\"session\":\"article\"}"`, "index"},
		"without a task it reads from 0":    {request("write something", read), `call(read_message "{\"index\":0}")`, ""},
		"without read_message it writes":    {request("about message 7", write, save), `call(write `, "read_message"},
		"without write it appends":          {request("about message 7", tool("append", textParams)), `call(append `, "write("},
		"without tools it answers":          {request("Hello?"), `finish(stop)`, "call("},
		"tools it does not know it lets be": {request("Hello?", tool("bash", noParams)), `finish(stop)`, "call("},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := fs.Author{}.Reply(tt.req).String()
			assert.Contains(t, got, tt.want)
			if tt.not != "" {
				assert.NotContains(t, got, tt.not)
			}
		})
	}
	t.Run("a forced tool is called", func(t *testing.T) {
		req := request("about message 7", read, write, save)
		req.Chat.ToolChoice = chat.ForceTool("save")
		assert.Contains(t, fs.Author{}.Reply(req).String(), `call(save "{}")`)
	})
	t.Run("some tool is called if one must be", func(t *testing.T) {
		req := request("Hello?", tool("bash", `{"properties":{"command":{"type":"string"}},"required":["command"]}`))
		req.Chat.ToolChoice = chat.ToolChoiceRequired
		assert.Contains(t, fs.Author{}.Reply(req).String(), `call(bash "{\"command\":\"article\"}")`)
	})
	t.Run("none is called if none may be", func(t *testing.T) {
		req := request("about message 7", read, write, save)
		req.Chat.ToolChoice = chat.ToolChoiceNone
		assert.NotContains(t, fs.Author{}.Reply(req).String(), `call(`)
	})
	t.Run("a message out of range ends the reading", func(t *testing.T) {
		req := request("about messages 7 to 60", read, write, save)
		req.Chat.Messages = append(req.Chat.Messages,
			chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "1", Name: "read_message", Arguments: `{"index":7}`}}},
			chat.ToolResult("1", `{"index":7,"in_range":false}`))
		assert.Contains(t, fs.Author{}.Reply(req).String(), `call(write `)
	})
	t.Run("a long message is read on", func(t *testing.T) {
		req := request("about message 7", read, write, save)
		req.Chat.Messages = append(req.Chat.Messages,
			chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "1", Name: "read_message", Arguments: `{"index":7}`}}},
			chat.ToolResult("1", `{"index":7,"in_range":true,"text":"one","page":1,"pages":9}`+"\n\n[note: hurry]"))
		assert.Contains(t, fs.Author{}.Reply(req).String(), `call(read_message "{\"index\":7,\"page\":2}")`)
	})
	t.Run("an error that names a tool is heeded", func(t *testing.T) {
		req := request("about message 7", write, save)
		req.Chat.Messages = append(req.Chat.Messages,
			chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "1", Name: "write", Arguments: `{"text":"x"}`}}},
			chat.ToolResult("1", "ok"),
			chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "2", Name: "save", Arguments: `{}`}}},
			chat.ToolResult("2", `error: save was not run: the step "write" (call write or append) comes first.`))
		assert.Contains(t, fs.Author{}.Reply(req).String(), `call(write `)
	})
	t.Run("an answer that does not say what it answers is not asked for again", func(t *testing.T) {
		req := request("about message 7", read, write, save)
		req.Chat.Messages = append(req.Chat.Messages,
			chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: "1", Name: "read_message", Arguments: `{"index":7}`}}},
			chat.ToolResult("1", `just the text of it`))
		got := fs.Author{}.Reply(req).String()
		assert.Contains(t, got, `call(write "{\"text\":\"# just the text`)
	})
	t.Run("a nudge to save comes after the notes", func(t *testing.T) {
		req := request("about messages 7 and 8", read, write, tool("append", textParams), save)
		for i, c := range []struct{ name, args, result string }{
			{"read_message", `{"index":7}`, `{"text":"one"}`}, {"read_message", `{"index":8}`, `{"text":"two"}`}, {"write", `{"text":"x"}`, "ok"},
		} {
			id := fmt.Sprint(i)
			req.Chat.Messages = append(req.Chat.Messages,
				chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: id, Name: c.name, Arguments: c.args}}},
				chat.ToolResult(id, c.result))
		}
		req.Chat.Messages = append(req.Chat.Messages, chat.Assistant("(no answer)"),
			chat.User(`Your last message was empty. The step "save" is missing: call save now.`))
		assert.Contains(t, fs.Author{}.Reply(req).String(), `call(append `)
	})
	t.Run("it gives up on a tool that keeps failing", func(t *testing.T) {
		req := request("about message 7", save)
		for i := range 6 {
			id := fmt.Sprint(i)
			req.Chat.Messages = append(req.Chat.Messages,
				chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: id, Name: "save", Arguments: `{}`}}},
				chat.ToolResult(id, "error: disk full"))
		}
		assert.Contains(t, fs.Author{}.Reply(req).String(), `give up`)
	})
	t.Run("an unreadable message is left out", func(t *testing.T) {
		req := request("about messages 1 and 2", read, write, save)
		for i := range 3 {
			id := fmt.Sprint(i)
			req.Chat.Messages = append(req.Chat.Messages,
				chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: id, Name: "read_message", Arguments: `{"index":1}`}}},
				chat.ToolResult(id, "error: message 1 is damaged"))
		}
		assert.Contains(t, fs.Author{}.Reply(req).String(), `call(read_message "{\"index\":2}")`)
	})
	t.Run("no messages at all", func(t *testing.T) {
		assert.Contains(t, fs.Author{}.Reply(&fs.Request{}).String(), "error(400")
		assert.Contains(t, fs.Author{}.Reply(&fs.Request{Chat: &chat.Request{}}).String(), "error(400")
	})
}

// Words in many forms name the messages to read.
func TestAuthorReadsTheTask(t *testing.T) {
	tests := map[string][]int{
		"about message 7":                                    {7},
		"Message 7 of 90":                                    {7},
		"about messages 12 to 14, in 300 words":              {12, 13, 14},
		"messages 3-5":                                       {3, 4, 5},
		"messages 3–5":                                       {3, 4, 5},
		"messages #3 through #4":                             {3, 4},
		"messages 2, 4 and 9":                                {2, 4, 9},
		"messages 1 to 2 and 5":                              {1, 2, 5},
		"read 5 things in message number 8":                  {8},
		"messages 9 to 3":                                    {9},
		"the session has 90 messages: take messages 4 and 5": {4, 5},
		"messages 0 to 99999999999999999999":                 {0},
	}
	for task, want := range tests {
		t.Run(task, func(t *testing.T) {
			req := request(task, tool("read_message", indexParams))
			off := false
			req.Chat.ParallelToolCalls = &off
			var got []int
			for range 20 {
				_, args, ok := strings.Cut(fs.Author{}.Reply(req).String(), `call(read_message "{\"index\":`)
				if !ok {
					break
				}
				var i int
				_, err := fmt.Sscanf(args, "%d", &i)
				require.NoError(t, err)
				got = append(got, i)
				id := fmt.Sprint(len(got))
				req.Chat.Messages = append(req.Chat.Messages,
					chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{ID: id, Name: "read_message", Arguments: fmt.Sprintf(`{"index":%d}`, i)}}},
					chat.ToolResult(id, fmt.Sprintf(`{"index":%d,"in_range":true,"text":"x"}`, i)))
			}
			assert.Equal(t, want, got)
		})
	}
}

// A bad habit shows once: asked the same again, the author does without.
func TestAuthorAskedAgain(t *testing.T) {
	inMemory(t, author("empty=1", 1), func(t *testing.T, srv *fs.Server) {
		h := newHarness(t, srv, "about message 1")
		assert.False(t, h.turn())
		assert.Empty(t, h.last)
		assert.True(t, h.turn(), "the conversation is the same")
	})
}

// An author can be slow: so many tokens per second.
func TestAuthorPace(t *testing.T) {
	script := fs.Author{TokensPerSecond: 80}.Reply
	inMemory(t, fs.Config{Script: script}, func(t *testing.T, srv *fs.Server) {
		s := ask(t, transport(t, srv), srv, streamBody, time.Hour)
		require.NoError(t, s.err)
		pieces := strings.Count(s.body, `"delta":{"content":`) - 1 // the role's is empty
		assert.Positive(t, pieces)
		assert.Equal(t, time.Duration(pieces)*100*time.Millisecond, s.took)
	})
}

// To a plain request the author gives a plain answer.
func TestAuthorAnswersPlainly(t *testing.T) {
	inMemory(t, author("none", 1), func(t *testing.T, srv *fs.Server) {
		h := newHarness(t, srv, "about messages 0 to 1")
		body, err := h.req.AppendJSON(nil, false, false)
		require.NoError(t, err)
		s := h.ask(string(body))
		resp, _, err := chat.ParseResponse([]byte(s.body))
		require.NoError(t, err)
		require.NotEmpty(t, resp.Message.ToolCalls)
		assert.JSONEq(t, `{"index":0}`, resp.Message.ToolCalls[0].Arguments)
		assert.NotNil(t, resp.Usage)
	})
}

func TestParseHabits(t *testing.T) {
	h, err := fs.ParseHabits("empty=0.1, forget-save=0.5")
	require.NoError(t, err)
	assert.Equal(t, "forget-save=0.5,empty=0.1", h.String())
	h, err = fs.ParseHabits("none")
	require.NoError(t, err)
	assert.Equal(t, "none", h.String())
	h, err = fs.ParseHabits("default")
	require.NoError(t, err)
	assert.Equal(t, fs.DefaultHabits().String(), h.String())
	for _, name := range fs.HabitNames() {
		assert.Contains(t, h.String(), name+"=")
	}
	_, err = fs.ParseHabits("smoking=1")
	assert.EqualError(t, err, `fakeserver: habits: "smoking" is not known; there are forget-save, unknown-tool, bad-args, empty, repeat, reasoning-only, length-cut`)
}
