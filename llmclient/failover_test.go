package llmclient_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
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

// Calls that change endpoints pay from the retry budget of the new one: 35 at once and
// ten a second, so that the failure of one does not overload the next.
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
		assert.InDelta(t, 6.428571428e9, float64(at[99]), 1e6) // 100 - 500/14 of them, ten a second
	})
}

// While one endpoint is passed over for its key, and the other is out of order for
// longer than there is time, a call does not wait for either: it fails at once and says
// why.
func TestAnEndpointThatRefusesForGoodIsNotWaitedForInVain(t *testing.T) {
	no := fake.Error(401, "invalid_request_error", "invalid_api_key", "wrong key")
	for name, tc := range map[string]struct {
		other fake.Step
		when  llmclient.WhenOpen
		time  time.Duration // that there is; 0 means enough
		want  llmclient.Kind
		took  time.Duration
		asked []int // by the last call
	}{
		"a pause, no time":          {fake.Reply(fake.RetryAfter(time.Hour), fake.Throttled()), llmclient.Wait, 10 * time.Second, llmclient.ErrThrottled, 0, []int{0, 0}},
		"a breaker, no time":        {fake.Status(500, "x"), llmclient.Wait, 10 * time.Second, llmclient.ErrOpen, 0, []int{0, 0}},
		"a breaker, no wish":        {fake.Status(500, "x"), llmclient.FailFast, 0, llmclient.ErrOpen, 0, []int{0, 0}},
		"a breaker, and a try":      {fake.Status(500, "x"), llmclient.LeastBad, 0, llmclient.ErrServer, 0, []int{0, 1}},
		"a breaker, enough of time": {fake.Status(500, "x"), llmclient.Wait, 0, llmclient.ErrAuth, time.Minute, []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			inRealm(t, says(no, tc.other), func(c *llmclient.Config) {
				inOrder(c)
				c.WhenOpen = tc.when
				c.Retry.Attempts = 1
				c.Breaker = breaker.Config{Failures: 1, Cooldown: 10 * time.Minute}
			}, func(t *testing.T, r *realm) {
				for range 2 {
					_, err := r.client.Chat(t.Context(), hello())
					require.Error(t, err)
				}
				before, at, ctx := r.asked(), time.Now(), t.Context()
				if tc.time > 0 {
					ctx = contextWith(t, tc.time)
				}
				_, err := r.client.Chat(ctx, hello())
				failure(t, err, tc.want)
				assert.Equal(t, tc.took, time.Since(at).Round(time.Second), "%v", err)
				after := r.asked()
				assert.Equal(t, tc.asked, []int{after[0] - before[0], after[1] - before[1]})
			})
		})
	}
}

// A pacer that refuses a call a place in its queue proves nothing about other endpoints.
func TestWhatOnePacerTurnsAwayAnotherTakes(t *testing.T) {
	slow := fake.Reply(fake.Pause(10*time.Second), fake.Text("ok"), fake.End("stop"))
	for name, tc := range map[string]struct {
		pacers [2]pacer.Config
		asked  []int
		failed error
		fails  int
	}{
		"it is too large for the first":  {pacers: [2]pacer.Config{{TokensPerMinute: 50}}, asked: []int{0, 6}},
		"it is too large for both":       {pacers: [2]pacer.Config{{TokensPerMinute: 50}, {TokensPerMinute: 50}}, asked: []int{0, 0}, failed: pacer.ErrTooLarge, fails: 6},
		"the queue of the first is full": {pacers: [2]pacer.Config{{MaxInFlight: 1, MaxQueue: 1}}, asked: []int{2, 4}},
		"both are full":                  {pacers: [2]pacer.Config{{MaxInFlight: 1, MaxQueue: 1}, {MaxInFlight: 1, MaxQueue: 1}}, asked: []int{2, 2}, failed: pacer.ErrQueueFull, fails: 2},
	} {
		t.Run(name, func(t *testing.T) {
			inRealm(t, says(slow, slow), func(c *llmclient.Config) {
				inOrder(c)
				for i := range c.Endpoints {
					c.Endpoints[i].Pacer = &tc.pacers[i]
				}
			}, func(t *testing.T, r *realm) {
				errs := make([]error, 6)
				var wg sync.WaitGroup
				for i := range errs {
					wg.Go(func() {
						req := hello()
						req.MaxTokens = 100
						_, errs[i] = r.client.Chat(t.Context(), req)
					})
				}
				wg.Wait()
				errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
				assert.Len(t, errs, tc.fails)
				for _, err := range errs {
					assert.ErrorIs(t, err, tc.failed)
				}
				assert.Equal(t, tc.asked, r.asked())
			})
		})
	}
}

// Two endpoints are wedged. The third has made nobody wait, and is asked.
func TestStallsAtTwoEndpointsDoNotKeepACallFromTheThird(t *testing.T) {
	inRealm(t, says(fake.Hang(), fake.Hang(), fake.Answer("ok")), func(c *llmclient.Config) {
		inOrder(c)
		c.Clocks.FirstOutput.Limit = time.Minute
	}, func(t *testing.T, r *realm) {
		resp, err := r.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Equal(t, "c", resp.Endpoint)
		r.elapsed(2 * time.Minute)
	})
	inRealm(t, says(fake.Hang(), fake.Hang(), fake.Hang()), func(c *llmclient.Config) {
		inOrder(c)
		c.Clocks.FirstOutput.Limit = time.Minute
	}, func(t *testing.T, r *realm) {
		_, err := r.client.Chat(t.Context(), hello())
		failure(t, err, llmclient.ErrTimeout)
		assert.Equal(t, []int{1, 1, 1}, r.asked(), "each has its one try, and none a second")
	})
}

// All ways to fail, at two endpoints, under a deadline: unless something hangs, no call
// waits for the deadline if it can know earlier that it will fail.
func TestEveryPairOfFaultsUnderADeadline(t *testing.T) {
	faults := map[string]fake.Step{
		"throttled":   fake.Reply(fake.RetryAfter(time.Minute), fake.Throttled()),
		"500":         fake.Status(500, "x"),
		"unavailable": fake.Unavailable(),
		"wrong key":   fake.Error(401, "", "invalid_api_key", "wrong"),
		"no money":    fake.OutOfQuota(),
		"reset":       fake.Reset(),
		"empty":       fake.Done(),
		"refused":     fake.Error(400, "", "", "bad"),
	}
	const deadline = 20 * time.Second
	for first, a := range faults {
		for second, b := range faults {
			for _, when := range []llmclient.WhenOpen{llmclient.Wait, llmclient.FailFast, llmclient.LeastBad} {
				t.Run(fmt.Sprintf("%s, %s, %v", first, second, when), func(t *testing.T) {
					inRealm(t, says(a, b), func(c *llmclient.Config) {
						inOrder(c)
						c.WhenOpen = when
						c.Breaker = breaker.Config{Failures: 2, Cooldown: 30 * time.Second}
					}, func(t *testing.T, r *realm) {
						for range 4 {
							at := time.Now()
							_, err := r.client.Chat(contextWith(t, deadline), hello())
							require.Error(t, err)
							require.Less(t, time.Since(at), deadline, "%v", err)
						}
					})
				})
			}
		}
	}
}

// Once the time of a throttle is over, it counts no longer against its endpoint: a call
// does not stay in another endpoint's queue because of it.
func TestAThrottleIsNoReasonToQueueElsewhere(t *testing.T) {
	a := script(fake.Reply(fake.Pause(time.Minute), fake.Text("a"), fake.End("stop")))
	b := script(fake.Reply(fake.RetryAfter(10*time.Second), fake.Throttled()), fake.Answer("b"))
	inRealm(t, []fake.Config{a, b}, func(c *llmclient.Config) {
		c.Endpoints[0].Pacer = &pacer.Config{MaxInFlight: 1}
	}, func(t *testing.T, r *realm) {
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				_, err := r.client.Chat(t.Context(), hello())
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.LessOrEqual(t, time.Since(r.start), time.Minute)
	})
}

// The endpoint that has the conversation is worth a short pause, but not if its
// queue has no room.
func TestAFullQueueWhereTheCacheIs(t *testing.T) {
	a := script(fake.Answer("a"), fake.Reply(fake.RetryAfter(1500*time.Millisecond), fake.Throttled()), fake.Answer("a"))
	inRealm(t, []fake.Config{a, script(fake.Answer("b"))}, func(c *llmclient.Config) {
		inOrder(c)
		c.Endpoints[0].Pacer = &pacer.Config{MaxQueue: 1}
	}, func(t *testing.T, r *realm) {
		req := hello()
		resp, err := r.client.Chat(t.Context(), req)
		require.NoError(t, err)
		req.Messages = append(req.Messages, resp.Message, chat.User("go on"))
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				_, err := r.client.Chat(t.Context(), req)
				assert.NoError(t, err)
			})
			synctest.Wait() // the first is throttled, and waits
		}
		wg.Wait()
		assert.Equal(t, 5, r.asked()[1])
	})
}
