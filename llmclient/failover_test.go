package llmclient_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// One is back in 5 s, the other in ten minutes or more.
func TestAWaitForOneEndpointLooksAtTheOthers(t *testing.T) {
	for _, d := range []time.Duration{10 * time.Minute, time.Hour} {
		t.Run(d.String(), func(t *testing.T) {
			a := script(fake.Reply(fake.RetryAfter(5*time.Second), fake.Throttled()), fake.Answer("a"))
			b := script(fake.Reply(fake.RetryAfter(d), fake.Throttled()), fake.Answer("b"))
			inRealm(t, []fake.Config{a, b}, inOrder, func(t *testing.T, r *realm) {
				resp, err := r.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Equal(t, "a", resp.Endpoint)
				assert.Less(t, time.Since(r.start), time.Minute)
			})
		})
	}
}

// A backup with a wrong key must not turn one hiccup into a failed call.
func TestABrokenBackupDoesNoHarm(t *testing.T) {
	for name, b := range map[string]fake.Step{
		"key":   fake.Error(401, "", "invalid_api_key", "wrong key"),
		"403":   fake.Error(403, "", "", "not for you"),
		"model": fake.Error(404, "", "model_not_found", "no such model"),
		"quota": fake.OutOfQuota(),
	} {
		t.Run(name, func(t *testing.T) {
			inRealm(t, []fake.Config{script(fake.Unavailable(), fake.Answer("a")), {Script: fake.Always(b)}}, inOrder, func(t *testing.T, r *realm) {
				_, err := r.client.Chat(t.Context(), hello())
				require.NoError(t, err)
			})
		})
	}
}

// Both restart for a minute, and both had worked.
func TestTwoRestartsAreOutlivedAsOneIs(t *testing.T) {
	for name, n := range map[string]int{"one": 1, "two": 2} {
		t.Run(name, func(t *testing.T) {
			ok := fake.Answer("ok")
			srvs := says(ok, ok)[:n]
			inRealm(t, srvs, nil, func(t *testing.T, r *realm) {
				for i := range 40 {
					_, err := r.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User(fmt.Sprint(i))}})
					require.NoError(t, err)
				}
				for _, s := range r.srvs {
					s.SetNet(fake.NetFault{Kind: fake.Refused, Until: time.Minute})
					s.CloseConns()
				}
				_, err := r.client.Chat(t.Context(), hello())
				require.NoError(t, err)
			})
		})
	}
}

func TestOfTwoDeadEndpointsTheFirstToComeBackIsNoticed(t *testing.T) {
	dead := func(until time.Duration, ok fake.Step) fake.Script {
		return func(q *fake.Request) fake.Step {
			if q.Since < until {
				return fake.Hang()
			}
			return ok
		}
	}
	for _, which := range []int{0, 1} {
		t.Run([]string{"a", "b"}[which], func(t *testing.T) {
			times := []time.Duration{time.Hour, time.Hour}
			times[which] = 2*time.Minute + 10*time.Second
			inRealm(t, []fake.Config{
				{Script: dead(times[0], fake.Answer("a")), Models: dead(times[0], fake.ModelList())},
				{Script: dead(times[1], fake.Answer("b")), Models: dead(times[1], fake.ModelList())},
			}, inOrder, func(t *testing.T, r *realm) {
				_, err := r.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Less(t, time.Since(r.start), 2*time.Minute+30*time.Second)
			})
		})
	}
}

// The endpoint with the cache is on its way out of a pause. That hides the one that is free.
func TestACacheDoesNotHideWhoIsFree(t *testing.T) {
	a := script(fake.Answer("a"), fake.Reply(fake.RetryAfter(4*time.Second), fake.Throttled()), fake.Answer("a"))
	b := script(fake.Answer("b"), fake.Reply(fake.Pause(3*time.Second), fake.Error(401, "", "", "key expired")))
	c := fake.Config{Script: fake.Always(fake.Answer("c"))}
	inRealm(t, []fake.Config{a, b, c}, inOrder, func(t *testing.T, r *realm) {
		resp, err := r.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		require.Equal(t, "a", resp.Endpoint)
		_, err = r.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User("other")}})
		require.NoError(t, err)
		req := hello()
		req.Messages = append(req.Messages, chat.Message{Role: "assistant", Content: "a"}, chat.User("go on"))
		resp, err = r.client.Chat(t.Context(), req)
		require.NoError(t, err)
		assert.NotEqual(t, "b", resp.Endpoint)
	})
}

func TestALongPromptKeepsItsTimeAtAnotherEndpoint(t *testing.T) {
	inRealm(t, says(fake.Hang(), fake.Answer("ok")), inOrder, func(t *testing.T, r *realm) {
		req := &chat.Request{Messages: []chat.Message{chat.User(strings.Repeat("word ", 200_000))}}
		resp, err := r.client.Chat(t.Context(), req)
		require.NoError(t, err)
		assert.Equal(t, "b", resp.Endpoint)
	})
}

// The caller's deadline is 60 s, one endpoint is dead, and the other is healthy.
func TestThereIsNoReserveForAnEndpointThatHasNotStalled(t *testing.T) {
	srvs := says(fake.Hang(), fake.Answer("ok"))
	srvs[0].Models = fake.Always(fake.Hang())
	inRealm(t, srvs, inOrder, func(t *testing.T, r *realm) {
		_, err := r.client.Chat(contextWith(t, time.Minute), hello())
		require.NoError(t, err)
	})
}

func TestCallsLeaveAQueueForAnEndpointThatIsFree(t *testing.T) {
	a := script(fake.Reply(fake.RetryAfter(5*time.Second), fake.Throttled()), fake.Answer("a"))
	slow := fake.Reply(fake.Pause(time.Minute), fake.Answer("b"))
	inRealm(t, []fake.Config{a, {Script: fake.Always(slow)}}, func(c *llmclient.Config) {
		inOrder(c)
		c.Endpoints[0].Pacer = &pacer.Config{MaxInFlight: 1, Rand: func() float64 { return 0 }}
		c.Endpoints[1].Pacer = &pacer.Config{MaxInFlight: 1, Rand: func() float64 { return 0 }}
	}, func(t *testing.T, r *realm) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := r.client.Chat(t.Context(), &chat.Request{Messages: []chat.Message{chat.User(fmt.Sprint(i))}})
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.LessOrEqual(t, time.Since(r.start), 5*time.Minute)
	})
}

// The pause of the endpoint where a call waits grows; the other's is over.
func TestCallsInAQueueMoveWhenAPauseGrows(t *testing.T) {
	a := fake.Config{Script: func(q *fake.Request) fake.Step {
		if q.Since < time.Second {
			return fake.Reply(fake.RetryAfter(20*time.Second), fake.Throttled())
		}
		return fake.Reply(fake.RetryAfter(2*time.Minute), fake.Throttled())
	}}
	b := fake.Config{Script: func(q *fake.Request) fake.Step {
		if q.Since < 30*time.Second {
			return fake.Reply(fake.RetryAfter(25*time.Second), fake.Throttled())
		}
		return fake.Answer("b")
	}}
	inRealm(t, []fake.Config{a, b}, func(c *llmclient.Config) { inOrder(c); c.Pacer.MaxInFlight = 1 }, func(t *testing.T, r *realm) {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				_, err := r.client.Chat(t.Context(), hello())
				assert.NoError(t, err)
				assert.Less(t, time.Since(r.start), 90*time.Second, "b is free since 25 s")
			})
		}
		wg.Wait()
	})
}

// What moves over is on the retry budget of the other endpoint: 35 at once and
// ten a second, so that the fall of one is no storm for the next.
func TestAFailoverIsPaidForWhereItGoes(t *testing.T) {
	slow := fake.Reply(fake.Pause(30*time.Second), fake.Answer("ok"))
	inRealm(t, says(fake.Error(500, "", "", "oops"), slow), func(c *llmclient.Config) {
		inOrder(c)
		c.Breaker.Failures = -1
		c.Pacer.StartInFlight = -1
	}, func(t *testing.T, r *realm) {
		r.callers(t, 100)
		var at []time.Duration
		for _, q := range r.srvs[1].Requests() {
			at = append(at, q.Arrived.Sub(r.start))
		}
		slices.Sort(at)
		require.Len(t, at, 100)
		assert.Zero(t, at[34])
		assert.Positive(t, at[35])
		assert.InDelta(t, 6428571428, float64(at[99]), 1e6) // 100 - 500/14 of them, ten a second
	})
}
