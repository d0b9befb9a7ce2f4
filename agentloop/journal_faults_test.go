package agentloop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/journal"
	"github.com/neverhang/neverhang/chat"
)

// A pickyDisk does not take lines of one kind, until it does.
type pickyDisk struct {
	*disk
	not   string // such as `"k":"result"`
	times int    // how often
	panic bool   // instead, when a file of that name is opened

	before func() // each write, if not nil
}

type pickyFile struct {
	journal.File
	of *pickyDisk
}

func (d *pickyDisk) Open(name string) (journal.File, error) {
	if d.panic && name == d.not {
		panic("no such disk")
	}
	f, err := d.disk.Open(name)
	return &pickyFile{f, d}, err
}

func (f *pickyFile) WriteAt(p []byte, at int64) (int, error) {
	if f.of.before != nil {
		f.of.before()
	}
	if bytes.Contains(p, []byte(f.of.not)) {
		if f.of.times--; f.of.times >= 0 {
			return 0, syscall.ENOSPC
		}
	}
	return f.File.WriteAt(p, at)
}

// Whatever it is that cannot be written down, and be it once: nothing is done that
// nobody would know of, and the agent says why it ended.
func TestAnAgentEndsWithTheFirstLineThatCannotBeWritten(t *testing.T) {
	script := []step{
		calls(call("", "look", `{}`)),
		fails(tooLong{}),
		calls(call("", "send", `{}`)),
		fails(errWrongKey),
		calls(call("", "send", `{"n":2}`)),
		says("done"),
	}
	for name, c := range map[string]struct {
		not   string
		asked int
		sent  int
	}{
		"an answer":                   {`"n":1,"message"`, 1, 0},
		"the result of a look":        {`"tool":"look"`, 1, 0},
		"a refusal":                   {`"k":"refused"`, 2, 0},
		"an intent":                   {`"k":"intent"`, 3, 0},
		"the result of what was done": {`"tool":"send","text"`, 3, 1},
		"that it began again":         {`"k":"again"`, 4, 1},
		"nothing":                     {`"k":"nothing"`, 6, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &pickyDisk{disk: newDisk(nil), not: c.not, times: 1}
				j, err := journal.Open(journal.Config{FS: d, SyncEvery: -1})
				require.NoError(t, err)
				defer j.Close()
				sent := 0
				look := tool(t, "look", result(strings.Repeat("page ", 1000)))
				look.Effect = agentloop.EffectNone
				send := tool(t, "send", func(context.Context) (string, error) { sent++; return "sent", nil })
				m := play(script...)
				cfg := agentloop.Config{Model: m, Tools: []agentloop.Tool{look, send}, Messages: []chat.Message{
					chat.User("Look."), {Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{call("old", "look", `{}`)}},
					chat.ToolResult("old", strings.Repeat("old page ", 1000)),
				}}
				res, _ := runAgent(t, cfg, agentloop.GroupConfig{
					Journal: j, Restart: map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 3}},
				})
				assert.Len(t, m.requests(), c.asked)
				assert.Equal(t, c.sent, sent)
				if name == "nothing" {
					assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
					return
				}
				assert.Equal(t, agentloop.Failed, res.Outcome)
				assert.ErrorIs(t, res.Err, agentloop.ErrJournal)
				assert.ErrorIs(t, res.Err, syscall.ENOSPC)
			})
		})
	}
}

// An agent never runs without the journal that it is to have.
func TestAJournalThatPanicsIsNoJournal(t *testing.T) {
	for _, file := range []string{"run.jsonl", "agents/a.jsonl"} {
		j, err := journal.Open(journal.Config{FS: &pickyDisk{disk: newDisk(nil), not: file, panic: true}, SyncEvery: -1})
		require.NoError(t, err)
		m := play(says("done"))
		res, _ := runAgent(t, agentloop.Config{Model: m}, agentloop.GroupConfig{Journal: j})
		assert.Equal(t, agentloop.Failed, res.Outcome, file)
		assert.ErrorContains(t, res.Err, "no such disk", file)
		assert.Empty(t, m.requests(), file)
	}
}

// The log of the run has what docs/journal.md says.
func TestTheLogOfTheRunTellsWhoTookPart(t *testing.T) {
	d := newDisk(nil)
	j := openJournal(t, d)
	agents := append(many(t, 2, agentloop.Config{Model: play(says("done"))}), newAgent(t, agentloop.Config{Name: "b", Model: play(fails(errWrongKey))}))
	runGroup(t, t.Context(), agentloop.GroupConfig{Agents: agents, Journal: j, MaxParallel: 1})
	require.NoError(t, j.Close())
	var got []string
	for line := range strings.Lines(string(d.files["run.jsonl"])) {
		var e struct {
			K, Agent, Outcome, Error string
			Agents                   []string
			Counts                   map[string]int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		got = append(got, fmt.Sprintf("%s %v %s %s %q %v", e.K, e.Agents, e.Agent, e.Outcome, e.Error, e.Counts))
	}
	assert.Equal(t, []string{
		`run [agent00 agent01 b]   "" map[]`,
		`ended [] agent00 done "" map[]`,
		`ended [] agent01 done "" map[]`,
		`ended [] b failed "agentloop: agent \"b\" failed: 401: wrong key" map[]`,
		`run_end []   "" map[done:2 failed:1]`,
	}, got)
}

// An answer is in the journal with all that is in it, and a run that goes on sends it
// back and books it as the one before did.
func TestAnAnswerComesBackAsItWas(t *testing.T) {
	full := chat.Message{
		Role: chat.RoleAssistant, Reasoning: "hm", ReasoningKey: "reasoning_content", Name: "me",
		Parts: []chat.Part{chat.TextPart("one"), {Type: "image_url", Extra: map[string]json.RawMessage{"image_url": raw(`{"url":"x"}`)}}},
		Extra: map[string]json.RawMessage{"seen": raw("1")},
		ToolCalls: []chat.ToolCall{
			{ID: "c", Type: "function", Name: "dies", Arguments: "{}", Extra: map[string]json.RawMessage{"signature": raw(`"s"`)}},
		},
	}
	usage := &chat.Usage{PromptTokens: 40, CompletionTokens: 2, TotalTokens: 42, CachedTokens: 8, ReasoningTokens: 1}
	asks := func(context.Context, *chat.Request) (*chat.Response, error) {
		return &chat.Response{Message: full, FinishReason: chat.FinishToolCalls, Usage: usage}, nil
	}
	p := &program{t, newDisk(nil)}
	price := func(u *chat.Usage) float64 { return float64(u.TotalTokens) }
	again := tool(t, "dies", result("alive"))
	again.Effect = agentloop.EffectIdempotent
	p.run(agentloop.Config{Model: play(asks), Price: price, Tools: []agentloop.Tool{again}})
	m := play(says("done"))
	j := openJournal(t, p.d)
	defer j.Close()
	var told []string
	res, _ := runAgent(t, agentloop.Config{Model: m, Price: price, Tools: []agentloop.Tool{again}}, agentloop.GroupConfig{Journal: j, OnEvent: func(e agentloop.Event) {
		told = append(told, strings.TrimSpace(fmt.Sprint(e.Kind, " ", e.Tool)))
	}})
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	sent := m.requests()[0].Messages
	require.Len(t, sent, 3)
	assert.Equal(t, full, sent[1])
	assert.Equal(t, "alive", sent[2].Content)
	assert.Equal(t, *usage, res.Usage)
	assert.Equal(t, 42+float64(res.EstimatedTokens), res.Cost)
	assert.Equal(t, []string{
		"started", "resumed", "tool_started dies", "tool_ended dies", "round", "answered", "ended", "group_ended",
	}, told, "what was told then is not told again")
}

// An agent that was done stays done, even if there would be more to do by now.
func TestAnAgentThatWasDoneStaysDone(t *testing.T) {
	p := &program{t, newDisk(nil)}
	var ran []string
	cfg := agentloop.Config{Model: play(calls(call("", "read", `{}`))), Tools: named(t, agentloop.EffectOnce, &ran, "read", "save"), Progression: stepsOf("read")}
	first, _ := p.run(cfg)
	require.Equal(t, agentloop.Done, first.Outcome)
	m := play(fails(errWrongKey))
	cfg.Model, cfg.Progression = m, stepsOf("read", "save")
	second, _ := p.run(cfg)
	assert.Equal(t, agentloop.Done, second.Outcome, second.Err)
	assert.Empty(t, second.Missing)
	assert.Empty(t, m.requests())
	assert.Equal(t, []string{"read"}, ran)
}

// Logs of version 1 have no numbers: what a call came to stands behind its answer.
func TestALogWithoutNumbersIsGoneOnWith(t *testing.T) {
	p := &program{t, newDisk(nil)}
	var ran []string
	script := []step{calls(call("a", "read", `{}`)), calls(call("b", "read", `{"n":2}`), call("c", "save", `{}`)), says("done")}
	cfg := agentloop.Config{Model: play(script...), Tools: named(t, agentloop.EffectOnce, &ran, "read", "save"), MaxParallelTools: 1}
	p.run(cfg)
	log := string(p.d.files["agents/a.jsonl"])
	log = strings.ReplaceAll(log, `"v":2`, `"v":1`)
	for n := range 4 {
		log = strings.ReplaceAll(log, fmt.Sprintf(`"n":%d,`, n), "")
	}
	log = log[:strings.LastIndex(log, `{"k":"answer"`)]
	p.d.files["agents/a.jsonl"] = []byte(log)
	ran = nil
	m := play(says("done"))
	cfg.Model = m
	res, _ := p.run(cfg)
	assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Empty(t, ran, "nothing is done twice")
	assert.Equal(t, 2, res.Replayed)
	assert.Len(t, m.requests(), 1)
}

// A report is there in time, with what does not stop, though a hook and the disk hang
// one after the other.
func TestTheReportListsWhatStillHangsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		hang := make(chan struct{})
		var ill atomic.Bool
		d := &pickyDisk{disk: newDisk(nil), not: `"k":"end"`, before: func() {
			if ill.Load() {
				<-hang
			}
		}}
		j, err := journal.Open(journal.Config{FS: d, SyncEvery: -1})
		require.NoError(t, err)
		a := newAgent(t, agentloop.Config{Model: agentloop.ModelFunc(silent), Draft: func(context.Context, *agentloop.Result) (string, error) {
			<-hang
			return "", nil
		}})
		time.AfterFunc(time.Minute, func() {
			ill.Store(true)
			cancel()
		})
		g, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: []*agentloop.Agent{a}, Journal: j, Timeout: -1})
		require.NoError(t, err)
		began := time.Now()
		rep := g.Run(ctx)
		assert.Equal(t, agentloop.Abandoned, rep.Results[0].Outcome)
		var in []string
		for _, x := range rep.Abandoned {
			in = append(in, x.In)
		}
		assert.Equal(t, []string{"draft", "journal"}, in, "each once")
		assert.Less(t, time.Since(began), time.Minute+4*time.Second)
		close(hang)
		synctest.Wait()
		_ = j.Close()
	})
}

// An agent that got no answer at all has nothing to play, and asks anew.
func TestAnAgentThatGotNoAnswerBeginsAnew(t *testing.T) {
	p := &program{t, newDisk(nil)}
	for range 2 {
		res, _ := p.run(agentloop.Config{Model: play(fails(errWrongKey))})
		require.ErrorIs(t, res.Err, errWrongKey)
	}
	res, _ := p.run(agentloop.Config{Model: play(says("done"))})
	assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Zero(t, res.Replayed)
}
