package agentloop_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
)

// A program is what runs an agent on one journal, in one version after the other.
type program struct {
	t *testing.T
	d *disk
}

// run runs the agent to its end, or to the moment in which the process is killed:
// when the tool "dies" runs.
func (p *program) run(cfg agentloop.Config) (agentloop.Result, *agentloop.Report) {
	var left *disk
	for i := range cfg.Tools {
		if tl := &cfg.Tools[i]; tl.Name == "dies" {
			tl.Run = func(context.Context, raw) (string, error) {
				p.d.mu.Lock()
				defer p.d.mu.Unlock()
				left = newDisk(p.d.files)
				return "", agentloop.Fatal(errWrongKey)
			}
		}
	}
	j := openJournal(p.t, p.d)
	rep := runGroup(p.t, p.t.Context(), agentloop.GroupConfig{Agents: []*agentloop.Agent{newAgent(p.t, cfg)}, Journal: j})
	require.NoError(p.t, j.Close())
	if left == nil {
		left = newDisk(p.d.files)
	}
	p.d = left
	return rep.Results[0], rep
}

func named(t testing.TB, effect agentloop.Effect, ran *[]string, names ...string) (list []agentloop.Tool) {
	for _, name := range names {
		tl := tool(t, name, func(context.Context) (string, error) {
			*ran = append(*ran, name)
			return name + " gave 42", nil
		})
		tl.Effect = effect
		list = append(list, tl)
	}
	return list
}

func stepsOf(names ...string) (p agentloop.Progression) {
	for _, name := range names {
		p = append(p, agentloop.Step{Name: name, Tools: []string{name}})
	}
	return p
}

// What was done was done, whatever the program that goes on would say of it.
func TestWhatIsRecordedComesBeforeEveryRefusal(t *testing.T) {
	type made = agentloop.Config
	for name, change := range map[string]func(c *made, ran *[]string){
		"nothing has changed":       func(*made, *[]string) {},
		"the tool is gone":          func(c *made, _ *[]string) { c.Tools = c.Tools[1:] },
		"the tool is another":       func(c *made, _ *[]string) { c.Tools[0].Effect, c.Tools[0].Sequential = agentloop.EffectNone, true },
		"a step comes before it":    func(c *made, _ *[]string) { c.Progression = stepsOf("plan", "look") },
		"a budget is smaller":       func(c *made, _ *[]string) { c.MaxToolCalls = 3 },
		"there is less patience":    func(c *made, _ *[]string) { c.Repeats = 1 },
		"it is one that only looks": func(c *made, _ *[]string) { c.ReadOnly, c.Progression = true, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &program{t, newDisk(nil)}
				var ran []string
				look := calls(call("", "look", `{}`))
				cfg := agentloop.Config{
					Model: play(look, look, look, fails(errWrongKey)), Tools: named(t, agentloop.EffectOnce, &ran, "look", "plan"),
				}
				first, _ := p.run(cfg)
				require.Equal(t, agentloop.Failed, first.Outcome)
				require.Equal(t, []string{"look", "look", "look"}, ran)

				change(&cfg, &ran)
				m := play(says("It is 42."))
				cfg.Model = m
				second, rep := p.run(cfg)
				want := transcript(first.Messages)
				if reqs := m.requests(); name == "a budget is smaller" {
					require.Empty(t, reqs)
					assert.ErrorContains(t, second.Err, "budget of tool calls used up: 3 of 3")
					assert.Equal(t, want, transcript(second.Messages))
				} else {
					require.NotEmpty(t, reqs)
					played := transcript(reqs[0].Messages)
					if name == "there is less patience" {
						assert.Contains(t, played, "your last calls brought nothing new")
						played, _, _ = strings.Cut(played, "+[note")
						want = want[:len(played)]
					}
					assert.Equal(t, want, played)
				}
				assert.Len(t, ran, 3, "nothing is done again")
				assert.Empty(t, rep.Uncertain)
			})
		})
	}
}

// A call that was under way is in doubt even if the agent no longer has the tool.
func TestACallUnderWayIsUncertainThoughItsToolIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		then, now agentloop.Effect
		tools     []string
		uncertain int
	}{
		"it is there":                     {agentloop.EffectOnce, agentloop.EffectOnce, []string{"dies", "look"}, 1},
		"it is gone":                      {agentloop.EffectOnce, agentloop.EffectOnce, []string{"look"}, 1},
		"gone, though it was repeatable":  {agentloop.EffectIdempotent, agentloop.EffectOnce, []string{"look"}, 1},
		"it may be repeated by now":       {agentloop.EffectOnce, agentloop.EffectIdempotent, []string{"dies", "look"}, 0},
		"one that changed nothing is not": {agentloop.EffectNone, agentloop.EffectNone, []string{"look"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &program{t, newDisk(nil)}
				var ran []string
				p.run(agentloop.Config{Model: play(calls(call("c1", "dies", `{"to":"x"}`))), Tools: named(t, c.then, &ran, "dies")})
				m := play(says("I looked."))
				_, rep := p.run(agentloop.Config{Model: m, Tools: named(t, c.now, &ran, c.tools...)})
				assert.Len(t, rep.Uncertain, c.uncertain)
				for _, u := range rep.Uncertain {
					assert.Equal(t, agentloop.Uncertainty{Agent: "a", Tool: "dies", CallID: "c1", Arguments: `{"to":"x"}`}, u)
					assert.Contains(t, transcript(m.requests()[0].Messages), "nobody knows whether it took effect")
				}
			})
		})
	}
}

// Patience and budgets are for what is to come: an agent is not ended at a place that
// it had passed, neither by smaller ones, nor in whatever way it had come to an end.
func TestSmallerBoundsEndNothingThatIsPast(t *testing.T) {
	look, write, save := calls(call("", "look", `{}`)), calls(call("", "write", `{"text":"the whole article"}`)), calls(call("", "save", `{}`))
	idle := says("Well.")
	for name, change := range map[string]func(c *agentloop.Config){
		"as they were":        func(*agentloop.Config) {},
		"repeats":             func(c *agentloop.Config) { c.Repeats = 2 },
		"nudges":              func(c *agentloop.Config) { c.Nudges, c.NarrowedTries, c.ForcedTries = -1, -1, -1 },
		"the size of results": func(c *agentloop.Config) { c.MaxResult = 3 },
		"the window":          func(c *agentloop.Config) { c.Window = 100 },
		"all of them":         func(c *agentloop.Config) { c.Repeats, c.Nudges, c.NarrowedTries, c.ForcedTries = 1, -1, -1, -1 },
	} {
		for how, last := range map[string]string{"failed": "fail", "was killed": "dies"} {
			t.Run(name+", it "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &program{t, newDisk(nil)}
					var ran []string
					end := fails(errWrongKey)
					if last == "dies" {
						end = calls(call("", "dies", `{}`))
					}
					cfg := agentloop.Config{
						Model: play(look, look, look, idle, look, idle, idle, write, end), Progression: stepsOf("write", "save"),
						Tools: named(t, agentloop.EffectIdempotent, &ran, "look", "write", "save", "dies"),
					}
					first, _ := p.run(cfg)
					require.Equal(t, []string{"write"}, first.Steps, first.Err)

					change(&cfg)
					cfg.Tools = named(t, agentloop.EffectIdempotent, &ran, "look", "write", "save")
					cfg.Model = play(save)
					res, _ := p.run(cfg)
					if name == "the window" { // it is for what is to come, and too small for that
						assert.Equal(t, agentloop.Exhausted, res.Outcome, res.Err)
						assert.Equal(t, []string{"write"}, res.Steps)
						return
					}
					assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
					assert.Equal(t, 1, count(ran, "save"))
					assert.Equal(t, 1, count(ran, "write"))
				})
			})
		}
	}
	t.Run("rounds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &program{t, newDisk(nil)}
			var ran []string
			cfg := agentloop.Config{
				Model: play(look, write, fails(errWrongKey)), Progression: stepsOf("write", "save"),
				Tools: named(t, agentloop.EffectIdempotent, &ran, "look", "write", "save"),
			}
			p.run(cfg)
			m := play(save)
			cfg.Model, cfg.MaxRounds = m, 1
			res, _ := p.run(cfg)
			assert.ErrorIs(t, res.Err, agentloop.ErrRounds)
			assert.Equal(t, []string{"write"}, res.Steps, "what it has come to")
			assert.Empty(t, m.requests())
			cfg.MaxRounds = 3
			res, _ = p.run(cfg)
			assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
		})
	})
	// Where it came to its end for want of patience it does so again, and goes on.
	t.Run("the end that it had", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := &program{t, newDisk(nil)}
			var ran []string
			cfg := agentloop.Config{
				Model: play(look), Repeats: 3, Progression: stepsOf("write", "save"),
				Tools: named(t, agentloop.EffectIdempotent, &ran, "look", "write", "save"),
			}
			for i := range 3 {
				res, _ := p.run(cfg)
				require.ErrorIs(t, res.Err, agentloop.ErrRepeating, fmt.Sprint(i))
				require.Equal(t, 4*(i+1), res.Rounds, "patience begins anew")
			}
			cfg.Model, cfg.Repeats = play(write, save), 1
			res, _ := p.run(cfg)
			assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
		})
	})
}

func count(list []string, what string) int {
	return len(list) - len(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == what }))
}
