package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// What a passing fault costs: a pause, and nothing of what was done.
func TestRestartsFromTheLastCompletedRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := fails(passing{})
		m := play(
			calls(call("", "read", `{}`)),
			busy,
			calls(call("", "write", `{}`)),
			busy, busy, busy,
			calls(call("", "save", `{}`)),
		)
		cfg, d := author(t, m)
		res := runOne(t, cfg)
		require.Equal(t, agentloop.Done, res.Outcome, res.Err)
		assert.Equal(t, "read write save", d.log())
		assert.Equal(t, 4, res.Restarts)
		assert.Equal(t, 3, res.Rounds)
		assert.Equal(t, (1+1+2+4)*time.Second, res.Duration)

		reqs := m.requests()
		assert.Equal(t, reqs[1].Messages, reqs[2].Messages)
		assert.Equal(t, reqs[3].Messages, reqs[6].Messages)
	})
}

func TestRestartsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		restarts int
		backoff  time.Duration
		random   float64
		tries    int
		took     time.Duration
	}{
		"3 by default":               {passing{}, 0, 0, 0, 4, 7 * time.Second},
		"as set":                     {passing{}, 5, 10 * time.Second, 0, 6, (10 + 20 + 40 + 60 + 60) * time.Second},
		"none":                       {passing{}, -1, 0, 0, 1, 0},
		"without a pause":            {passing{}, 2, -1, 0, 3, 0},
		"longer at random":           {passing{}, 0, 0, 0.5, 4, 7*time.Second + 7*time.Second/4},
		"not before the server says": {passing{3 * time.Second}, 0, 0, 0, 4, (3 + 3 + 4) * time.Second},
		"even without a pause":       {passing{3 * time.Second}, 1, -1, 0.5, 2, 3 * time.Second},
		"a pause above the cap":      {passing{}, 2, time.Hour, 0, 3, 1*time.Hour + time.Hour},
		"negative wishes are none":   {passing{-time.Hour}, 1, 0, 0, 2, time.Second},
		"wrapped":                    {fmt.Errorf("call: %w", passing{}), 1, 0, 0, 2, time.Second},
		"not for a final fault":      {errWrongKey, 0, 0, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := play(fails(c.err))
				res, _ := runAgent(t, agentloop.Config{Model: m}, agentloop.GroupConfig{
					Restarts: c.restarts, Backoff: c.backoff, Timeout: -1, Rand: func() float64 { return c.random },
				})
				assert.Equal(t, agentloop.Failed, res.Outcome)
				assert.ErrorIs(t, res.Err, c.err)
				assert.Len(t, m.requests(), c.tries)
				assert.Equal(t, c.tries-1, res.Restarts)
				assert.Equal(t, c.took, res.Duration)
				assert.Len(t, res.Messages, 1)
			})
		})
	}
}

func TestARestartThatDoesNotFitIsNotBegun(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		took  time.Duration
		want  agentloop.Outcome
	}{
		"just fits":    {time.Minute - 1, time.Minute - 1, agentloop.Done},
		"does not fit": {time.Minute, 0, agentloop.Exhausted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := play(fails(passing{c.after}), says("ok"))
				res := runOne(t, agentloop.Config{Model: m, Timeout: time.Minute})
				assert.Equal(t, c.want, res.Outcome)
				assert.Equal(t, c.took, res.Duration)
				if c.want == agentloop.Exhausted {
					assert.ErrorIs(t, res.Err, passing{c.after})
					assert.ErrorContains(t, res.Err, "deadline")
				}
			})
		})
	}
}

func TestPauseEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		res := newAgent(t, agentloop.Config{Model: play(fails(passing{time.Hour}))}).Run(ctx)
		assert.Equal(t, agentloop.Cancelled, res.Outcome)
		assert.Equal(t, time.Second/2, res.Duration)
		assert.Contains(t, res.Stuck, "pausing after a fault")
	})
}

// Answers that are none, and partial ones, are passing faults; nothing of them
// is kept.
func TestBrokenAnswersArePassingFaults(t *testing.T) {
	partial := chat.Message{Content: "par", ToolCalls: []chat.ToolCall{call("", "read", `{}`)}}
	for name, s := range map[string]step{
		"neither answer nor error": func(ctx, *chat.Request) (*chat.Response, error) { return nil, nil },
		"aborted by the server":    answer(partial, chat.FinishAbort),
		"failed in the server":     answer(partial, chat.FinishError),
		"with an error beside": func(ctx, *chat.Request) (*chat.Response, error) {
			return &chat.Response{Message: partial, FinishReason: chat.FinishToolCalls}, passing{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &desk{}
				res := runOne(t, agentloop.Config{Model: play(s, says("whole")), Tools: d.tools(t)})
				assert.Equal(t, agentloop.Done, res.Outcome)
				assert.Equal(t, 1, res.Restarts)
				assert.Equal(t, "whole", res.Text)
				assert.Empty(t, d.log())
				assert.Len(t, res.Messages, 2)
			})
		})
	}
}

// The methods of an error are user code as well.
func TestErrorThatPanicsIsContained(t *testing.T) {
	res := runOne(t, agentloop.Config{Model: play(fails(rude{}))})
	assert.Equal(t, agentloop.Failed, res.Outcome)
	require.Len(t, res.Panics, 1)
}

type rude struct{ error }

func (rude) Retryable() bool { panic(errors.New("ask somebody else")) }

// What the caller's code and the server say about time is bounded by what time
// there is.
func TestAnAbsurdRetryAfterIsNotWaitedFor(t *testing.T) {
	for name, c := range map[string]struct{ after, backoff time.Duration }{
		"of the server": {math.MaxInt64, 0},
		"nearly":        {math.MaxInt64 - 1, 0},
		"of the caller": {0, math.MaxInt64},
		"of both":       {math.MaxInt64, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := play(fails(passing{c.after}))
				res, _ := runAgent(t, agentloop.Config{Model: m}, agentloop.GroupConfig{Backoff: c.backoff, Rand: func() float64 { return 1 }})
				assert.Len(t, m.requests(), 1)
				assert.Equal(t, agentloop.Exhausted, res.Outcome)
				assert.Zero(t, res.Duration)
			})
		})
	}
}

func TestRandMayReturnAnything(t *testing.T) {
	for name, c := range map[string]struct {
		rand   func() float64
		pause  time.Duration
		panics int
	}{
		"the middle":        {func() float64 { return 0.5 }, time.Second + time.Second/4, 0},
		"not a number":      {math.NaN, time.Second, 0},
		"less than nothing": {func() float64 { return -5 }, time.Second, 0},
		"minus infinity":    {func() float64 { return math.Inf(-1) }, time.Second, 0},
		"too much":          {func() float64 { return 1e300 }, time.Second + time.Second/2, 0},
		"infinity":          {func() float64 { return math.Inf(1) }, time.Second + time.Second/2, 0},
		"a panic":           {func() float64 { panic("no dice") }, time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res, _ := runAgent(t, agentloop.Config{Model: play(fails(passing{}), says("ok"))}, agentloop.GroupConfig{Rand: c.rand})
				assert.Equal(t, agentloop.Done, res.Outcome)
				assert.Equal(t, c.pause, res.Duration)
				assert.Len(t, res.Panics, c.panics)
			})
		})
	}
	t.Run("nothing, ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			defer close(release)
			res, _ := runAgent(t, agentloop.Config{Model: play(fails(passing{}))}, agentloop.GroupConfig{
				Timeout: time.Minute, Rand: func() float64 { <-release; return 0 },
			})
			assert.Equal(t, agentloop.Exhausted, res.Outcome)
			assert.Equal(t, time.Minute+50*time.Millisecond, res.Duration)
		})
	})
}

// A breaker that is open does not say why: the fault that began the row does.
func TestTheFirstFaultOfARowIsKept(t *testing.T) {
	open := fmt.Errorf("breaker open: %w", passing{})
	broken := fmt.Errorf("connection reset: %w", passing{})
	for name, c := range map[string]struct {
		steps []step
		want  string
	}{
		"at the end of the row": {[]step{fails(broken), fails(open)},
			"breaker open: server busy (the first fault was: connection reset: server busy) (4 passing faults in a row, 3 restarts allowed)"},
		"before a final fault": {[]step{fails(broken), fails(errWrongKey)},
			"401: wrong key (the first fault was: connection reset: server busy)"},
		"once if it is the same": {[]step{fails(open)},
			"breaker open: server busy (4 passing faults in a row, 3 restarts allowed)"},
		"not beyond its row": {[]step{fails(broken), calls(call("", "x", "")), fails(open)},
			"breaker open: server busy (4 passing faults in a row, 3 restarts allowed)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res := runOne(t, agentloop.Config{Model: play(c.steps...)})
				assert.Equal(t, agentloop.Failed, res.Outcome)
				assert.EqualError(t, res.Err, `agentloop: agent "a" failed: `+c.want)
			})
		})
	}
}
