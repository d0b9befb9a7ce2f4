package llmclient_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		"413":                          {fake.Error(413, "request_too_large", "", "no"), llmclient.ErrContextLength, false},
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
		"seconds since 1970":            {fake.Header("Retry-After", "946684804"), 4 * time.Second},
		"milliseconds since 1970":       {fake.Header("Retry-After", "946684803000"), 3 * time.Second},
		"infinite":                      {fake.Header("Retry-After", "inf"), 500 * time.Millisecond},
		"not a number, and seconds":     {fake.Reply(fake.Header("Retry-After-Ms", "NaN"), fake.RetryAfter(3*time.Second)), 3 * time.Second},
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

			// Whoever comes later asks again after a while: servers come back
			// sooner than they say.
			_, err = w.client.Chat(t.Context(), hello())
			e = failure(t, err, llmclient.ErrThrottled)
			assert.Equal(t, time.Hour, e.RetryAfter())
			w.elapsed(2 * time.Minute)
			assert.Len(t, w.srv.Requests(), 2)
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

// Thirty callers that were told the same time come back neither before it nor
// all at once.
func TestOneCoolDownForAllAndNoHerdAfterIt(t *testing.T) {
	throttle := func(r *fake.Request) fake.Step {
		if r.Since < time.Second {
			return fake.Reply(fake.RetryAfter(time.Second), fake.Throttled())
		}
		return fake.Answer("ok")
	}
	inWorld(t, fake.Config{Script: throttle}, func(c *llmclient.Config) { c.Retry.Jitter = 0; c.Pacer.Rand = nil }, func(t *testing.T, w *world) {
		w.callers(t, 30)
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

func TestRestartsOfAgentsDrawOnTheRetryBudget(t *testing.T) {
	slow := fake.Config{Script: fake.Always(fake.Slowly(10*time.Second, fake.Answer("ok")))}
	for name, tc := range map[string]struct {
		restart bool
		last    time.Duration
	}{
		"restarts wait for what the budget gives": {true, 6428571428 * time.Nanosecond}, // 100 - 500/14 of them, ten a second
		"first calls do not":                      {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, slow, unpaced, func(t *testing.T, w *world) {
				var wg sync.WaitGroup
				for range 100 {
					wg.Go(func() {
						req := hello()
						req.Restart = tc.restart
						_, err := w.client.Chat(t.Context(), req)
						assert.NoError(t, err)
					})
				}
				wg.Wait()
				at := w.arrivals()
				slices.Sort(at)
				assert.Equal(t, time.Duration(0), at[34])
				assert.InDelta(t, tc.last, at[99], float64(time.Millisecond))
			})
		})
	}
	t.Run("a restart ends with its caller", func(t *testing.T) {
		inWorld(t, slow, unpaced, func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					req := hello()
					req.Restart = true
					_, err := w.client.Chat(ctx, req)
					failure(t, err, llmclient.ErrDeadline)
				})
			}
			wg.Wait()
			w.elapsed(3 * time.Second)
		})
	})
}

// However many attempts do not count, an error stays one that can be read.
func TestAnErrorOfManyAttemptsIsShort(t *testing.T) {
	inWorld(t, script(fake.Answer("ok"), fake.Unavailable()), func(c *llmclient.Config) {
		c.Breaker.Failures = -1
		c.Clocks.Call.Limit = 20 * time.Minute
		c.Retry.Backoff, c.Retry.MaxBackoff = time.Second, time.Second
	}, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		_, err = w.client.Chat(t.Context(), hello())
		e := failure(t, err, llmclient.ErrServer)
		n := len(w.srv.Requests()) - 1
		require.Greater(t, n, 100)
		assert.Equal(t, n, e.AttemptCount)
		assert.Len(t, e.Attempts, 64)
		assert.True(t, e.Attempts[0].Started.Before(e.Attempts[63].Started))
		assert.ErrorContains(t, err, fmt.Sprintf("(attempt %d; before it: %d × ", n, n-1))
		assert.Less(t, len(err.Error()), 1000)
	})
}
