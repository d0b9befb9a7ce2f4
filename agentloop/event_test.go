package agentloop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
)

func TestEventsTellTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := play(
			calls(call("c1", "save", `{}`)),
			after(3*time.Second, calls(call("c2", "read", `{}`))),
			fails(passing{}),
			says("Done!"),
			says("Done!"),
			says("Done!"),
			says("Done!"),
			calls(call("c3", "write", `{}`), call("c4", "bad", `{}`)),
			calls(call("c5", "stuck", `{}`)),
			calls(call("c6", "save", `{}`)),
		)
		cfg, _ := author(t, m)
		release := make(chan struct{})
		cfg.Tools = append(cfg.Tools,
			tool(t, "bad", func(context.Context) (string, error) { panic("boom") }),
			tool(t, "stuck", func(context.Context) (string, error) { <-release; return "", nil }))
		var story []string
		var events []agentloop.Event
		cfg.OnEvent = func(e agentloop.Event) {
			events = append(events, e)
			story = append(story, strings.TrimSpace(fmt.Sprintf("%d %s %s %s %s", e.Round, e.Kind, e.Tool, e.Step, e.Outcome)))
		}
		res, rep := runAgent(t, cfg, agentloop.GroupConfig{})
		close(release)
		require.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Zero(t, rep.DroppedEvents)

		want := `0 started
1 round
1 answered
1 tool_refused save
1 nudged  read
2 round
2 answered
2 tool_started read
2 tool_ended read
2 step read read
3 round
3 restart
3 round
3 answered
3 nudged  write
4 round
4 answered
4 nudged  write
5 round
5 answered
5 nudged  write
6 round
6 narrowed  write
6 answered
6 nudged  write
7 round
7 forced  write
7 answered
7 tool_started write
7 tool_ended write
7 step write write
7 tool_started bad
7 tool_panicked bad
7 uncertain bad
8 round
8 answered
8 tool_started stuck
8 tool_abandoned stuck
8 uncertain stuck
9 round
9 answered
9 tool_started save
9 tool_ended save
9 step save save
9 ended   done`
		assert.Equal(t, want, strings.Join(story, "\n"))

		at := time.Time{}
		for _, e := range events {
			assert.False(t, e.Time.Before(at), "times grow")
			at = e.Time
			assert.Equal(t, "author", e.Agent)
			switch {
			case e.Kind == agentloop.EventAnswered && e.Round == 2:
				assert.Equal(t, 3*time.Second, e.After)
			case e.Kind == agentloop.EventRestart:
				assert.Equal(t, time.Second, e.After)
				assert.ErrorIs(t, e.Err, passing{})
			case e.Kind == agentloop.EventToolAbandoned:
				assert.Equal(t, time.Minute+50*time.Millisecond, e.After)
				assert.ErrorIs(t, e.Err, agentloop.ErrAbandoned)
			case e.Kind == agentloop.EventToolPanicked:
				_, ok := errors.AsType[*agentloop.PanicError](e.Err)
				assert.True(t, ok)
			}
		}
	})
}

// A consumer may be slow, panic, end its goroutine or hang: agents do not wait
// for it, and no outcome is lost.
func TestConsumersDoNotHoldAgentsUp(t *testing.T) {
	for name, c := range map[string]struct {
		hear func(e agentloop.Event)
		took time.Duration
	}{
		"slow":     {func(agentloop.Event) { time.Sleep(10 * time.Millisecond) }, time.Second + 70*time.Millisecond},
		"panics":   {func(agentloop.Event) { panic("no") }, time.Second},
		"exits":    {func(agentloop.Event) { runtime.Goexit() }, time.Second},
		"too slow": {func(agentloop.Event) { time.Sleep(time.Minute) }, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended, heard atomic.Int32
				cfg := agentloop.Config{Model: play(after(time.Second, says("ok")))}
				rep := runGroup(t, t.Context(), agentloop.GroupConfig{Agents: many(t, 3, cfg), OnEvent: func(e agentloop.Event) {
					heard.Add(1)
					if e.Kind == agentloop.EventEnded {
						ended.Add(1)
					}
					c.hear(e)
				}})
				assert.True(t, rep.Done())
				assert.Zero(t, rep.DroppedEvents)
				for _, res := range rep.Results {
					assert.Equal(t, time.Second, res.Duration)
				}
				if name != "slow" {
					assert.Equal(t, c.took, rep.Duration)
				}
				time.Sleep(time.Hour) // what is late is heard all the same
				assert.EqualValues(t, 3, ended.Load())
				assert.EqualValues(t, 13, heard.Load(), "four of each, and the group's end")
			})
		})
	}
}

func TestLogSaysWhatHappenedButNotWhatWasSaid(t *testing.T) {
	var lines bytes.Buffer
	cfg, _ := author(t, play(calls(call("", "read", `{"q":"secret"}`)), says("secret")))
	cfg.Task = "secret"
	_, _ = runAgent(t, cfg, agentloop.GroupConfig{
		Logger: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	log := lines.String()
	assert.NotContains(t, log, "secret")
	assert.Contains(t, log, `level=INFO msg="agentloop: step" agent=author round=1 tool=read step=read`)
	assert.Contains(t, log, `level=WARN msg="agentloop: ended" agent=author round=7 outcome=stalled`)
}

// A consumer that ends its goroutine, as t.FailNow does, loses that one event, and
// no other consumer loses any.
func TestAConsumerThatEndsItsGoroutineCostsOthersNothing(t *testing.T) {
	for _, who := range []string{"the agent's", "the group's"} {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var kinds [2][]agentloop.EventKind
				hear := func(i int, exits bool) func(agentloop.Event) {
					return func(e agentloop.Event) {
						if exits {
							runtime.Goexit()
						}
						if e.Agent != "" {
							kinds[i] = append(kinds[i], e.Kind)
						}
					}
				}
				var lines bytes.Buffer
				runAgent(t, agentloop.Config{Model: play(says("x")), OnEvent: hear(0, who == "the agent's")}, agentloop.GroupConfig{
					OnEvent: hear(1, who == "the group's"), Logger: slog.New(slog.NewTextHandler(&lines, nil)),
				})
				want := []agentloop.EventKind{agentloop.EventStarted, agentloop.EventRound, agentloop.EventAnswered, agentloop.EventEnded}
				if who == "the agent's" {
					assert.Empty(t, kinds[0])
					assert.Equal(t, want, kinds[1])
				} else {
					assert.Equal(t, want, kinds[0])
					assert.Empty(t, kinds[1])
				}
				assert.Contains(t, lines.String(), "agentloop: ended")
				assert.Contains(t, lines.String(), "agentloop: group_ended")
			})
		})
	}
}
