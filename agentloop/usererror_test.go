package agentloop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// A hollow error panics in every method when it is nil, as an errors.As that
// found nothing leaves it.
type hollow struct{ inner error }

func (e *hollow) Error() string { return "hollow: " + e.inner.Error() }
func (e *hollow) Unwrap() error { return e.inner }

// An uncomparable error makes == panic.
type uncomparable struct{ list []string }

func (uncomparable) Error() string { return "no comparison" }

// A mute error has a text that does not come.
type mute struct{ until chan struct{} }

func (e mute) Error() string { <-e.until; return "at last" }

func TestCausesThatDoHarmAreContained(t *testing.T) {
	release := make(chan struct{})
	for name, c := range map[string]struct {
		cause error
		text  string
		took  time.Duration // for the text alone
	}{
		"a typed nil":                {(*hollow)(nil), "text panics", 0},
		"one that wraps a typed nil": {&hollow{(*hollow)(nil)}, "text panics", 0},
		"one without comparison":     {uncomparable{[]string{"a"}}, "no comparison", 0},
		"one whose text blocks":      {mute{release}, "text does not come", 50 * time.Millisecond},
		"a healthy one":              {errWrongKey, "401: wrong key", 0},
		"a typed nil of ours":        {(*agentloop.TimeoutError)(nil), "text panics", 0},
	} {
		check := func(t *testing.T, rep *agentloop.Report) {
			t.Helper()
			assert.Equal(t, map[agentloop.Outcome]int{agentloop.Cancelled: 4}, rep.Counts)
			for _, err := range []error{rep.Err, rep.Results[0].Err, rep.Results[3].Err} {
				assert.ErrorContains(t, err, c.text)
				// Later looks into it are as safe.
				assert.Equal(t, c.cause == errWrongKey, errors.Is(err, errWrongKey))
				_, ok := errors.AsType[*hollow](err)
				assert.Equal(t, errors.As(err, new(*hollow)), ok)
			}
			assert.ErrorIs(t, rep.Results[3].Err, agentloop.ErrNeverStarted)
			assert.Equal(t, time.Second+c.took, rep.Duration)
		}
		t.Run(name+", of CancelGroup", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				if c.took > 0 {
					c.cause = mute{release}
				}
				defer func() { close(release) }()
				stop := tool(t, "stop", func(ctx context.Context) (string, error) {
					time.Sleep(time.Second)
					assert.True(t, agentloop.CancelGroup(ctx, c.cause))
					return "", nil
				})
				agents := many(t, 4, agentloop.Config{Model: play(calls(call("", "stop", "{}"))), Tools: []agentloop.Tool{stop}})
				check(t, runGroup(t, t.Context(), agentloop.GroupConfig{Agents: agents, MaxParallel: 3}))
			})
		})
		t.Run(name+", of the caller", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				if c.took > 0 {
					c.cause = mute{release}
				}
				defer func() { close(release) }()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(c.cause) })
				check(t, runGroup(t, ctx, agentloop.GroupConfig{
					Agents: many(t, 4, agentloop.Config{Model: agentloop.ModelFunc(silent)}), MaxParallel: 3,
				}))
			})
		})
	}
}

// A tool that hands on why its caller has ended is believed, whatever that is.
func TestAToolThatReturnsACauseWithoutComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(uncomparable{[]string{"a"}}) })
		waits := tool(t, "waits", func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
		waits.Effect = agentloop.EffectIdempotent
		m := play(calls(call("", "waits", "{}")))
		rep := runGroup(t, ctx, agentloop.GroupConfig{Agents: []*agentloop.Agent{newAgent(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{waits}})}})
		res := rep.Results[0]
		assert.Equal(t, agentloop.Cancelled, res.Outcome)
		assert.Empty(t, res.Panics)
		assert.Equal(t, "error: no comparison", res.Messages[2].Content)
	})
}

// The text of an error is user code, and may never come.
func TestTheTextOfAnErrorHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		bad := mute{release}
		tools := []agentloop.Tool{
			tool(t, "fail", func(context.Context) (string, error) { return "", bad }),
			tool(t, "throw", func(context.Context) (string, error) { panic(bad) }),
		}
		for name, m := range map[string]agentloop.Model{
			"model":       play(fails(bad)),
			"model panic": agentloop.ModelFunc(func(context.Context, *chat.Request) (*chat.Response, error) { panic(bad) }),
			"tool":        play(calls(call("", "fail", "{}"))),
			"tool panic":  play(calls(call("", "throw", "{}"))),
		} {
			res, _ := runAgent(t, agentloop.Config{Model: m, Tools: tools}, agentloop.GroupConfig{Timeout: 30 * time.Second})
			assert.Equal(t, agentloop.Abandoned, res.Outcome, name)
			assert.Equal(t, 30*time.Second+50*time.Millisecond, res.Duration, name)
		}
		res, _ := runAgent(t, agentloop.Config{Model: play(fails(errWrongKey)), Draft: func(context.Context, *agentloop.Result) (string, error) {
			return "", bad
		}}, agentloop.GroupConfig{})
		assert.Equal(t, agentloop.Failed, res.Outcome)
		assert.ErrorIs(t, res.DraftErr, agentloop.ErrAbandoned)
	})
}

func TestAPanicWithATypedNilIsAPanicLikeAnyOther(t *testing.T) {
	m := agentloop.ModelFunc(func(context.Context, *chat.Request) (*chat.Response, error) { panic((*hollow)(nil)) })
	res := runOne(t, agentloop.Config{Model: m})
	assert.Equal(t, agentloop.Failed, res.Outcome)
	require.Len(t, res.Panics, 1)
	assert.NotErrorIs(t, res.Err, errWrongKey)
	assert.ErrorContains(t, res.Err, "panic in model")
}

func TestANilContextIsAnErrorAndNoPanic(t *testing.T) {
	var none context.Context
	m := play(says("ok"))
	rep := runGroup(t, none, agentloop.GroupConfig{Agents: many(t, 2, agentloop.Config{Model: m})})
	assert.Equal(t, map[agentloop.Outcome]int{agentloop.Failed: 2}, rep.Counts)
	assert.EqualError(t, rep.Err, "agentloop: context is nil")
	assert.ErrorIs(t, rep.Results[1].Err, rep.Err)
	assert.ErrorIs(t, rep.Results[1].Err, agentloop.ErrNeverStarted)
	assert.Empty(t, m.requests())
	assert.Empty(t, agentloop.AgentName(none))
	assert.False(t, agentloop.CancelGroup(none, nil))
	agentloop.Heartbeat(none)
}

// An isBlocks is an error whose Is does not return.
type isBlocks struct{ until chan struct{} }

func (isBlocks) Error() string   { return "400" }
func (e isBlocks) Is(error) bool { <-e.until; return false }

// The loop asks nothing of a tool's error after the call: not whether it is one of
// its own either.
func TestAnErrorWhoseMethodsBlockHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		defer close(until)
		fatal := tool(t, "f", func(context.Context) (string, error) { return "", agentloop.Fatal(isBlocks{until}) })
		m := play(calls(call("", "f", `{}`)), says("well"))
		res, _ := runAgent(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{fatal}}, agentloop.GroupConfig{
			Restart: map[agentloop.Outcome]agentloop.RestartPolicy{agentloop.Failed: {Max: 1}},
		})
		assert.Equal(t, agentloop.Done, res.Outcome, "%v", res.Err)
		assert.Equal(t, time.Second, res.Duration)
	})
}
