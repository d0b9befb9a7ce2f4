package llmclient_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestInFlightTellsWhoWaitsForWhatSinceWhen(t *testing.T) {
	reply := func(r *fake.Request) fake.Step {
		if r.Ordinal == 1 {
			return fake.Reply(fake.Text("one"), fake.Text("two"), fake.Repeat(3, time.Second, fake.Ping()), fake.Hang())
		}
		return fake.Hang()
	}
	inWorld(t, fake.Config{Script: reply}, func(c *llmclient.Config) { c.Pacer.MaxInFlight = 2 }, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			req := hello()
			req.Caller = name
			wg.Go(func() { _, _ = w.client.Chat(ctx, req) })
			synctest.Wait()
			time.Sleep(time.Second)
		}
		time.Sleep(57 * time.Second)

		list := w.client.InFlight()
		require.Len(t, list, 3)
		a, b, c := list[0], list[1], list[2]
		assert.Equal(t, "a", a.Caller)
		assert.Equal(t, llmclient.PhaseOutput, a.Phase)
		assert.EqualValues(t, 2, a.Outputs)
		assert.Equal(t, 3, a.Pings)
		assert.Equal(t, llmclient.ClockGap, a.Suspect)
		assert.Equal(t, w.start, a.LastOutput)
		assert.Equal(t, w.start.Add(2*time.Second), a.LastByte)
		assert.Equal(t, llmclient.PhaseFirstOutput, b.Phase)
		assert.Equal(t, w.start.Add(time.Second), b.Since)
		assert.Equal(t, llmclient.ClockFirstOutput, b.Suspect)
		assert.Equal(t, llmclient.PhaseQueue, c.Phase)
		assert.Equal(t, 0, c.Attempt)
		assert.Equal(t, w.start.Add(2*time.Second), c.Since)
		assert.Equal(t, "output", a.WaitingFor)
		assert.Equal(t, "output", b.WaitingFor)
		assert.Equal(t, "a request in flight to end", c.WaitingFor)
		assert.EqualValues(t, 1, a.Tokens)
		assert.Contains(t, b.Evidence, "the last probe was answered")
		assert.Empty(t, c.Evidence)
		assert.Positive(t, c.PromptBytes)
		cancel()
		wg.Wait()
	})
}

// Forty-five callers against an endpoint that has gone quiet: the fault that
// this package is for. All of them return, by name, and nothing is left.
func TestFortyFiveCallersAndASilentEndpoint(t *testing.T) {
	inWorld(t, script(fake.Hang()), nil, func(t *testing.T, w *world) {
		errs := make([]error, 45)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, errs[i] = w.client.Chat(t.Context(), hello()) })
		}
		wg.Wait()
		for _, err := range errs {
			require.ErrorIs(t, err, llmclient.ErrTimeout)
		}
		assert.LessOrEqual(t, time.Since(w.start), 21*time.Minute)
		assert.Less(t, len(w.srv.Requests()), 60, "and the endpoint is not stormed")
	})
}
