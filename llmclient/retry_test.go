package llmclient_test

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// arrivals returns when the requests came, since the start.
func (w *world) arrivals() []time.Duration {
	var list []time.Duration
	for _, r := range w.srv.Requests() {
		list = append(list, r.Arrived.Sub(w.start))
	}
	return list
}

func TestBackoffDoublesAndEndsWithTheAttempts(t *testing.T) {
	inWorld(t, script(fake.Unavailable()), nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrServer)
		ms := time.Millisecond
		assert.Equal(t, []time.Duration{0, 500 * ms, 1500 * ms, 3500 * ms}, w.arrivals())
		require.Len(t, e.Attempts, 4, "attempts reported equal requests on the wire")
		assert.Equal(t, 503, e.Attempts[2].Status)
		assert.Len(t, w.ofKind(llmclient.EventAttempt), 4)
		assert.Len(t, w.ofKind(llmclient.EventRetry), 3)
		assert.Len(t, w.ofKind(llmclient.EventDone), 1)
	})
}

func TestNoRetriesWhenTurnedOff(t *testing.T) {
	for _, n := range []int{1, -1} {
		inWorld(t, script(fake.Unavailable()), func(c *llmclient.Config) { c.Retry.Attempts = n }, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrServer)
			assert.Len(t, w.srv.Requests(), 1)
		})
	}
}

func TestWhatIsRetried(t *testing.T) {
	tests := map[string]struct {
		reply fake.Step
		kind  llmclient.Kind
		again bool
	}{
		"500":                          {fake.Error(500, "server_error", "", "oops"), llmclient.ErrServer, true},
		"502":                          {fake.Status(502, "<html>bad gateway</html>"), llmclient.ErrServer, true},
		"529":                          {fake.Error(529, "overloaded_error", "", "busy"), llmclient.ErrServer, true},
		"408":                          {fake.Status(408, ""), llmclient.ErrServer, true},
		"409":                          {fake.Status(409, ""), llmclient.ErrServer, true},
		"429":                          {fake.Throttled(), llmclient.ErrThrottled, true},
		"429 of an empty account":      {fake.OutOfQuota(), llmclient.ErrQuota, false},
		"400":                          {fake.Error(400, "invalid_request_error", "", "no"), llmclient.ErrRequest, false},
		"422":                          {fake.Status(422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`), llmclient.ErrRequest, false},
		"413":                          {fake.Error(413, "request_too_large", "", "no"), llmclient.ErrRequest, false},
		"501":                          {fake.Status(501, ""), llmclient.ErrRequest, false},
		"context overflow by its code": {fake.Error(400, "x", "context_length_exceeded", "too long"), llmclient.ErrContextLength, false},
		"context overflow in words":    {fake.Error(400, "x", "", "This model's maximum context length is 8192 tokens"), llmclient.ErrContextLength, false},
		"x-should-retry: false":        {fake.Reply(fake.Header("X-Should-Retry", "false"), fake.Unavailable()), llmclient.ErrServer, false},
		"x-should-retry: true":         {fake.Reply(fake.Header("X-Should-Retry", "true"), fake.Error(400, "x", "", "odd")), llmclient.ErrRequest, true},
		"reset before an answer":       {fake.Reset(), llmclient.ErrNetwork, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(tc.reply, fake.Answer("ok")), nil, func(t *testing.T, w *world) {
				resp, err := w.client.Chat(t.Context(), hello())
				if !tc.again {
					failure(t, err, tc.kind)
					assert.Len(t, w.srv.Requests(), 1)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, "ok", resp.Message.Content)
				f := w.ofKind(llmclient.EventFailed)
				require.Len(t, f, 1)
				assert.ErrorIs(t, f[0].Err, tc.kind)
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	tests := map[string]struct {
		header fake.Step
		wait   time.Duration
	}{
		"seconds":                       {fake.RetryAfter(3 * time.Second), 3 * time.Second},
		"a fraction":                    {fake.Header("Retry-After", "1.5"), 1500 * time.Millisecond},
		"milliseconds":                  {fake.RetryAfterMs(1200 * time.Millisecond), 1200 * time.Millisecond},
		"milliseconds win":              {fake.Reply(fake.RetryAfter(9*time.Second), fake.RetryAfterMs(2*time.Second)), 2 * time.Second},
		"a date":                        {fake.RetryAfterDate(4 * time.Second), 4 * time.Second},
		"less than the backoff":         {fake.RetryAfterMs(time.Millisecond), 500 * time.Millisecond},
		"zero":                          {fake.RetryAfter(0), 500 * time.Millisecond},
		"negative seconds":              {fake.RetryAfter(-time.Second), 500 * time.Millisecond},
		"negative milliseconds":         {fake.RetryAfterMs(-time.Second), 500 * time.Millisecond},
		"a date long past":              {fake.Header("Retry-After", "Wed, 21 Oct 1998 07:28:00 GMT"), 500 * time.Millisecond},
		"nonsense":                      {fake.Header("Retry-After", "soon"), 500 * time.Millisecond},
		"not a number":                  {fake.Header("Retry-After", "NaN"), 500 * time.Millisecond},
		"a date, by the server's clock": {fake.Reply(fake.Header("Date", "Wed, 21 Oct 2015 07:28:00 GMT"), fake.Header("Retry-After", "Wed, 21 Oct 2015 07:28:05 GMT")), 5 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(fake.Reply(tc.header, fake.Throttled()), fake.Answer("ok")), nil, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.Equal(t, []time.Duration{0, tc.wait}, w.arrivals())
			})
		})
	}
}

func TestAWaitThatDoesNotFitIsNotBegun(t *testing.T) {
	t.Run("the caller's deadline", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.RetryAfter(time.Second), fake.Throttled())), nil, func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := w.client.Chat(ctx, hello())
			w.elapsed(0)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			e := failure(t, err, llmclient.ErrThrottled)
			assert.Equal(t, 429, e.Status)
			assert.Equal(t, time.Second, e.RetryAfter())
			assert.Len(t, w.srv.Requests(), 1)
		})
	})
	t.Run("the call's own bound", func(t *testing.T) {
		inWorld(t, script(fake.Reply(fake.RetryAfter(time.Hour), fake.Throttled())), nil, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			w.elapsed(0)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			e := failure(t, err, llmclient.ErrThrottled)
			assert.True(t, e.Retryable())
			assert.Equal(t, time.Hour, e.RetryAfter())

			// And whoever comes later is told at once, without asking again.
			_, err = w.client.Chat(t.Context(), hello())
			e = failure(t, err, llmclient.ErrThrottled)
			assert.Equal(t, time.Hour, e.RetryAfter())
			w.elapsed(0)
			assert.Len(t, w.srv.Requests(), 1)
		})
	})
	t.Run("after a stall, the time in which another would show", func(t *testing.T) {
		inWorld(t, script(fake.Hang()), func(c *llmclient.Config) {
			c.Clocks.FirstOutput.Limit = 10 * time.Second // suspect at 5 s
			c.Clocks.Call.Limit = 15 * time.Second
		}, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrTimeout)
			assert.Len(t, w.srv.Requests(), 1)
			w.elapsed(10 * time.Second)
		})
	})
	t.Run("but a short deadline does not keep quick failures from being retried", func(t *testing.T) {
		inWorld(t, script(fake.Unavailable(), fake.Answer("ok")), nil, func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := w.client.Chat(ctx, hello())
			require.NoError(t, err)
		})
	})
}

// Thirty callers who were told the same time come back neither before it nor
// all at once.
func TestOneCoolDownForAllAndNoHerdAfterIt(t *testing.T) {
	throttle := func(r *fake.Request) fake.Step {
		if r.Since < time.Second {
			return fake.Reply(fake.RetryAfter(time.Second), fake.Throttled())
		}
		return fake.Answer("ok")
	}
	inWorld(t, fake.Config{Script: throttle}, func(c *llmclient.Config) { c.Retry.Jitter = 0; c.Pacer.Rand = nil }, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				_, err := w.client.Chat(t.Context(), hello())
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		at := w.arrivals()
		slices.Sort(at)
		// Some were still on their way when the first was refused.
		first, _ := slices.BinarySearch(at, time.Second)
		later := at[first:]
		require.Len(t, later, 30)
		for i := range later {
			if j := i + 8; j < len(later) {
				assert.Greater(t, later[j]-later[i], 50*time.Millisecond, "more than a quarter within 50 ms")
			}
		}
		assert.Less(t, later[29], 10*time.Second)
	})
}

func TestAPermitIsNotHeldDuringBackoff(t *testing.T) {
	first := true
	inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
		if first {
			first = false
			return fake.Unavailable()
		}
		return fake.Answer("ok")
	}}, func(c *llmclient.Config) {
		c.Pacer.MaxInFlight = 1
		c.Retry.Backoff = 2 * time.Second
	}, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := w.client.Chat(t.Context(), hello())
			assert.NoError(t, err)
		})
		time.Sleep(100 * time.Millisecond)
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		w.elapsed(100 * time.Millisecond)
		wg.Wait()
		assert.Equal(t, []time.Duration{0, 100 * time.Millisecond, 2 * time.Second}, w.arrivals())
	})
}

func TestTheQueueClockAndTheCallerInTheQueue(t *testing.T) {
	slow := script(fake.Reply(fake.Text("a"), fake.Repeat(200, time.Minute, fake.Text("b")), fake.End("stop")))
	busy := func(t *testing.T, w *world, test func(t *testing.T)) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = w.client.Chat(ctx, hello()) })
		synctest.Wait()
		test(t)
		cancel()
		wg.Wait()
	}
	one := func(c *llmclient.Config) { c.Pacer.MaxInFlight = 1 }
	t.Run("two hours are the limit", func(t *testing.T) {
		inWorld(t, slow, one, func(t *testing.T, w *world) {
			busy(t, w, func(t *testing.T) {
				_, err := w.client.Chat(t.Context(), hello())
				e := failure(t, err, llmclient.ErrTimeout)
				assert.Equal(t, llmclient.ClockQueue, e.Clock)
				assert.Equal(t, llmclient.PhaseQueue, e.Phase)
				w.elapsed(2 * time.Hour)
			})
		})
	})
	t.Run("an hour in the queue is no time of the call", func(t *testing.T) {
		hour := script(fake.Reply(fake.Text("a"), fake.Repeat(61, time.Minute, fake.Text("b")), fake.End("stop")), fake.Answer("ok"))
		inWorld(t, hour, one, func(t *testing.T, w *world) {
			busy(t, w, func(t *testing.T) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				assert.GreaterOrEqual(t, time.Since(w.start), time.Hour)
			})
		})
	})
	t.Run("the caller may leave", func(t *testing.T) {
		inWorld(t, slow, one, func(t *testing.T, w *world) {
			busy(t, w, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				_, err := w.client.Chat(ctx, hello())
				failure(t, err, llmclient.ErrDeadline)
				w.elapsed(3 * time.Second)
				assert.Equal(t, 1, w.client.Pacer().InFlight)
			})
		})
	})
}

func TestADeadPooledConnectionCostsOneResend(t *testing.T) {
	inWorld(t, fake.Config{Script: fake.Always(fake.Answer("ok")), Net: []fake.NetFault{{Kind: fake.IdleClose, After: 200 * time.Millisecond}}}, nil, func(t *testing.T, w *world) {
		for range 3 {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			time.Sleep(500 * time.Millisecond)
		}
		assert.Zero(t, w.client.Breaker().Failures)
		assert.Empty(t, w.ofKind(llmclient.EventRetry))
	})
}

func TestAPooledConnectionThatDiesUnderTheRequestCostsOneResend(t *testing.T) {
	inWorld(t, script(fake.Answer("ok"), fake.Reset(), fake.Answer("ok")), nil, func(t *testing.T, w *world) {
		for range 2 {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		assert.Len(t, w.srv.Requests(), 3)
		assert.Len(t, w.ofKind(llmclient.EventAttempt), 3, "attempts reported equal requests on the wire")
		assert.Zero(t, w.client.Breaker().Failures)
		assert.Empty(t, w.ofKind(llmclient.EventRetry))
		w.elapsed(0)
	})
}

func TestABlackHoledConnectionIsNotUsedAgain(t *testing.T) {
	inWorld(t, fake.Config{Script: fake.Always(fake.Answer("ok")), Net: []fake.NetFault{{Kind: fake.BlackHole, First: 1, Last: 1, After: 200 * time.Millisecond}}},
		func(c *llmclient.Config) { c.Clocks.FirstOutput.Limit = time.Second; c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
			time.Sleep(500 * time.Millisecond)
			_, err = w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrTimeout)
			_, err = w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		})
}

func TestConnectionsAreReusedUnderRetries(t *testing.T) {
	replies := []fake.Step{}
	for range 3 {
		replies = append(replies, fake.Error(503, "server_error", "", pad(4<<10)))
	}
	n := 0
	inWorld(t, fake.Config{Script: func(*fake.Request) fake.Step {
		n++
		if n%4 != 0 {
			return replies[n%4-1]
		}
		return fake.Answer("ok")
	}}, func(c *llmclient.Config) { c.Breaker.Failures = -1 }, func(t *testing.T, w *world) {
		for range 20 {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		assert.Equal(t, 1, w.srv.Stats().Dialled)
	})
}

func TestTheBreakerOpensAndCallersOutliveTheOutage(t *testing.T) {
	inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
		if r.Since < time.Minute {
			return fake.Unavailable()
		}
		return fake.Answer("ok")
	}}, func(c *llmclient.Config) { c.Retry.Attempts = 100 }, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				_, err := w.client.Chat(t.Context(), hello())
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.Less(t, time.Since(w.start), 2*time.Minute)
		assert.Equal(t, breaker.Closed, w.client.Breaker().State)
		assert.NotEmpty(t, w.ofKind(llmclient.EventBreaker))
		assert.Less(t, len(w.srv.Requests()), 16+16+20, "an outage is not stormed")
	})
}

func TestFailFastSaysThatTheBreakerIsOpen(t *testing.T) {
	inWorld(t, script(fake.Unavailable()), func(c *llmclient.Config) { c.FailFast = true; c.Retry.Attempts = 1 }, func(t *testing.T, w *world) {
		for range 5 {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrServer)
		}
		_, err := w.client.Chat(t.Context(), hello())
		failure(t, err, llmclient.ErrOpen)
		require.ErrorIs(t, err, breaker.ErrOpen)
		assert.Len(t, w.srv.Requests(), 5)
	})
}

func TestRefusedRequestsDoNotOpenTheBreaker(t *testing.T) {
	n := 0
	inWorld(t, fake.Config{Script: func(*fake.Request) fake.Step {
		if n++; n <= 20 {
			return fake.Error(400, "invalid_request_error", "", "no")
		}
		return fake.Answer("ok")
	}}, nil, func(t *testing.T, w *world) {
		for range 20 {
			_, err := w.client.Chat(t.Context(), hello())
			failure(t, err, llmclient.ErrRequest)
		}
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Empty(t, w.ofKind(llmclient.EventBreaker))
	})
}

func TestCancelsDoNotCountAgainstTheEndpointAndDeadlinesOnStallsDo(t *testing.T) {
	inWorld(t, script(fake.Hang()), nil, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		_, err := w.client.Chat(ctx, hello())
		failure(t, err, llmclient.ErrCanceled)
		assert.Zero(t, w.client.Breaker().Failures)

		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err = w.client.Chat(ctx, hello())
		failure(t, err, llmclient.ErrDeadline)
		assert.Zero(t, w.client.Breaker().Failures, "nothing was suspect yet")

		ctx, cancel = context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		_, err = w.client.Chat(ctx, hello())
		failure(t, err, llmclient.ErrDeadline)
		assert.Equal(t, 1, w.client.Breaker().Failures, "it was suspect for ten seconds")
	})
}

// A transport that does not hear contexts cannot hold a call, neither before
// the head nor in the body.
func TestATransportThatIgnoresContexts(t *testing.T) {
	for name, hold := range map[string]func(release chan struct{}) roundTripper{
		"in RoundTrip": func(release chan struct{}) roundTripper {
			return func(*http.Request) (*http.Response, error) { <-release; return nil, http.ErrHandlerTimeout }
		},
		"in Read": func(release chan struct{}) roundTripper {
			return func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: deafBody{release}, Request: r}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := func() {}
			inWorld(t, fake.Config{}, func(c *llmclient.Config) {
				ch := held(&release)
				c.HTTPClient.Transport = hold(ch)
				c.Clocks.Call.Limit = 5 * time.Second
			}, func(t *testing.T, w *world) {
				defer func() { release() }()
				_, err := w.client.Chat(t.Context(), hello())
				require.Equal(t, llmclient.ClockCall, failure(t, err, llmclient.ErrTimeout).Clock)
				w.elapsed(5 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err = w.client.Chat(ctx, hello())
				failure(t, err, llmclient.ErrDeadline)
				w.elapsed(7 * time.Second)
			})
		})
	}
}

// held makes a channel and a function that closes it.
func held(release *func()) chan struct{} {
	ch := make(chan struct{})
	*release = func() { close(ch) }
	return ch
}

func TestATransportThatPanics(t *testing.T) {
	c, err := llmclient.New(llmclient.Config{
		BaseURL: "http://x.test/v1", Model: "m", Retry: llmclient.Retry{Attempts: 1},
		HTTPClient: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { panic("broken") })},
	})
	require.NoError(t, err)
	_, err = c.Chat(t.Context(), hello())
	failure(t, err, llmclient.ErrNetwork)
	assert.ErrorContains(t, err, "panicked: broken")
	require.NoError(t, c.Close())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type deafBody struct{ release chan struct{} }

func (b deafBody) Read([]byte) (int, error) { <-b.release; return 0, http.ErrBodyReadAfterClose }
func (b deafBody) Close() error             { return nil }

// A trial shows that the model works when its first output comes, not only
// when its answer is whole.
func TestATrialCountsFromItsFirstOutput(t *testing.T) {
	inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
		if r.Since < 2*time.Second {
			return fake.Unavailable()
		}
		return fake.Reply(fake.Text("a"), fake.Pause(time.Minute), fake.End("stop"))
	}}, func(c *llmclient.Config) { c.Retry.Attempts = 10 }, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, err := w.client.Chat(t.Context(), hello())
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.Less(t, time.Since(w.start), 75*time.Second)
	})
}
