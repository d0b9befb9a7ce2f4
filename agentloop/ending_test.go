package agentloop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
)

// How a progression may end beside its last required step.
func TestWaysToEnd(t *testing.T) {
	read := agentloop.Step{Name: "read", Tools: []string{"read"}}
	decline := agentloop.Step{Name: "decline", Tools: []string{"append"}, Optional: true, End: true}
	write := agentloop.Step{Name: "write", Tools: []string{"write"}}
	tag := agentloop.Step{Name: "tag", Tools: []string{"append"}, Optional: true}
	save := agentloop.Step{Name: "save", Tools: []string{"save"}}
	for name, c := range map[string]struct {
		prog    agentloop.Progression
		script  string // calls of tools; a capital is a text, ! a fault for good
		want    agentloop.Outcome
		steps   string
		missing string
		rounds  int
	}{
		"the other way out":                     {agentloop.Progression{read, decline, write, save}, "read append", agentloop.Done, "read decline", "", 2},
		"not before it is due":                  {agentloop.Progression{read, decline, write, save}, "append read write save", agentloop.Done, "read write save", "", 4},
		"nor once it is passed, for it is over": {agentloop.Progression{read, decline, write, save}, "read write append", agentloop.Done, "read write decline", "", 3},
		"a tail taken":                          {agentloop.Progression{read, save, tag}, "read save append", agentloop.Done, "read save tag", "", 3},
		"a tail left":                           {agentloop.Progression{read, save, tag}, "read save Saved", agentloop.Done, "read save", "", 3},
		"a tail spoiled":                        {agentloop.Progression{read, save, tag}, "read save !", agentloop.Done, "read save", "", 2},
		"a tail never reached":                  {agentloop.Progression{read, save, tag}, "read !", agentloop.Failed, "read", "save", 1},
		"a text is no end before":               {agentloop.Progression{read, save, tag}, "read Saved save Yes", agentloop.Done, "read save", "", 4},
	} {
		t.Run(name, func(t *testing.T) {
			var script []step
			for _, word := range strings.Fields(c.script) {
				switch {
				case word == "!":
					script = append(script, fails(errWrongKey))
				case word[0] < 'a':
					script = append(script, says(word))
				default:
					script = append(script, calls(call("", word, "{}")))
				}
			}
			cfg, _ := author(t, play(script...))
			cfg.Progression = c.prog
			res := runOne(t, cfg)
			assert.Equal(t, c.want, res.Outcome, res.Err)
			assert.Equal(t, c.steps, strings.Join(res.Steps, " "))
			assert.Equal(t, c.missing, strings.Join(res.Missing, " "))
			assert.Equal(t, c.rounds, res.Rounds)
		})
	}
	_, err := agentloop.New(agentloop.Config{Name: "a", Model: play(), Task: "x", Tools: (&desk{}).tools(t),
		Progression: agentloop.Progression{{Name: "end", Tools: []string{"save"}, End: true}, write}})
	assert.ErrorContains(t, err, `Progression[1] ("write") comes after step "end", with which the work ends`)
}

// A role that only reads has the configuration of all, and cannot write.
func TestReadOnlyRolesOptOut(t *testing.T) {
	readOnly := func(effect agentloop.Effect, script ...step) (agentloop.Result, *desk, *strictServer) {
		m := play(script...)
		cfg, d := author(t, m)
		cfg.Tools[0].Effect = effect
		cfg.ReadOnly = true
		return runOne(t, cfg), d, m
	}
	res, d, m := readOnly(agentloop.EffectNone, says("Fine."), calls(call("", "read", "{}")), calls(call("", "save", "{}")), says("It is fine."))
	require.Equal(t, agentloop.Done, res.Outcome, res.Err)
	assert.Equal(t, "read", d.log())
	assert.Equal(t, "It is fine.", res.Text)
	assert.Equal(t, []string{"read"}, res.Steps)
	assert.Equal(t, []string{"read"}, offered(m.requests()[0]))
	assert.Contains(t, m.requests()[1].Messages[2].Content, `"read" is missing`)
	assert.Contains(t, m.requests()[3].Messages[6].Content, "no tool of that name")

	res, d, m = readOnly(agentloop.EffectOnce, says("Fine."))
	require.Equal(t, agentloop.Done, res.Outcome, "nothing is left of the progression")
	assert.Empty(t, d.log())
	assert.Empty(t, m.requests()[0].Tools)

	// Its steps alone are no answer.
	res, _, _ = readOnly(agentloop.EffectNone, calls(call("", "read", "{}")), fails(errWrongKey))
	assert.Equal(t, agentloop.Failed, res.Outcome)
	assert.Empty(t, res.Missing)
}

func TestFatalToolsEndTheirAgent(t *testing.T) {
	for name, run := range map[string]func(context.Context) (string, error){
		"an error": func(context.Context) (string, error) { return "", errors.New("disk is gone") },
		"a panic":  func(context.Context) (string, error) { panic("disk is gone") },
	} {
		disk := tool(t, "disk", run)
		disk.Fatal = true
		m := play(calls(call("", "disk", "{}")), says("never asked"))
		res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{disk}})
		assert.Equal(t, agentloop.Failed, res.Outcome, name)
		assert.ErrorContains(t, res.Err, "disk is gone", name)
		assert.Len(t, m.requests(), 1, name)
	}
}

func TestEffectIsOneOfTheConstants(t *testing.T) {
	bad := tool(t, "bad", result(""))
	bad.Effect = 7
	_, err := agentloop.New(agentloop.Config{Name: "a", Model: play(), Task: "x", Tools: []agentloop.Tool{bad}})
	assert.EqualError(t, err, `agentloop: tool "bad": Effect is 7, want one of the constants (agent "a")`)
}

// However an agent ends in the midst of its calls, each of them has one result, and
// another run can go on with the conversation.
func TestHoweverAnAgentEndsInItsCallsItCanBeGoneOnWith(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   agentloop.Config
		group agentloop.GroupConfig
		third func(ctx context.Context) error // what the third call does
		deaf  bool
		want  agentloop.Outcome
	}{
		"its deadline":        {cfg: agentloop.Config{Timeout: time.Minute}, want: agentloop.Exhausted},
		"the group's":         {group: agentloop.GroupConfig{Timeout: time.Minute}, want: agentloop.Exhausted},
		"the watchdog":        {group: agentloop.GroupConfig{OnStall: agentloop.StallEnd}, want: agentloop.Stalled},
		"cancelled by name":   {third: func(ctx context.Context) error { agentloop.CancelAgents(ctx, nil, "a"); return nil }, want: agentloop.Cancelled},
		"with all":            {third: func(ctx context.Context) error { agentloop.CancelGroup(ctx, nil); return nil }, want: agentloop.Cancelled},
		"a fatal sibling":     {third: func(context.Context) error { return agentloop.Fatal(errors.New("no")) }, want: agentloop.Failed},
		"a deaf one":          {cfg: agentloop.Config{Timeout: time.Minute}, deaf: true, want: agentloop.Abandoned},
		"its budget of calls": {cfg: agentloop.Config{MaxToolCalls: 1}, want: agentloop.Exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				hang := tool(t, "hang", func(ctx context.Context) (string, error) {
					if c.deaf {
						<-release
					}
					select {
					case <-ctx.Done():
					case <-time.After(time.Hour):
					}
					return "", ctx.Err()
				})
				hang.Timeout = -1
				quick := tool(t, "quick", result("done"))
				third := tool(t, "third", func(ctx context.Context) (string, error) {
					if c.third == nil {
						return "done", nil
					}
					return "", c.third(ctx)
				})
				cfg := c.cfg
				cfg.Model = play(calls(call("1", "quick", "{}"), call("2", "hang", "{}"), call("3", "third", "{}"), call("1", "hang", `{"n":2}`)))
				cfg.Tools, cfg.MaxParallelTools = []agentloop.Tool{quick, hang, third}, 3
				res, _ := runAgent(t, cfg, c.group)
				assert.Equal(t, c.want, res.Outcome, "%v", res.Err)
				require.NoError(t, strict(res.Messages))
				assert.Equal(t, "done", res.Messages[2].Content, "what was through is kept")
				next := runOne(t, agentloop.Config{Model: play(says("ok")), Messages: res.Messages, Task: "Go on."})
				assert.Equal(t, agentloop.Done, next.Outcome, next.Err)
			})
		})
	}
}
