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

func TestASuspicionThatIsOffStaysOff(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Pause(100*time.Millisecond), fake.Answer("ok")), fake.Reply(fake.Pause(5*time.Second), fake.Answer("ok"))), func(c *llmclient.Config) {
		c.Clocks.FirstOutput.Suspect = -1
		c.Clocks.Gap.Suspect = -1
	}, func(t *testing.T, w *world) {
		for range 2 {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		for _, e := range w.ofKind(llmclient.EventSuspect) {
			t.Errorf("suspect: %s after %v", e.Clock, e.After)
		}
	})
}

func TestASuspicionThatWasSetIsExact(t *testing.T) {
	inWorld(t, script(fake.Reply(fake.Pause(4*time.Minute), fake.Answer("ok")), fake.Reply(fake.Pause(2*time.Minute), fake.Answer("ok"))), func(c *llmclient.Config) {
		c.Clocks.FirstOutput.Suspect = time.Minute
	}, func(t *testing.T, w *world) {
		for range 2 {
			_, err := w.client.Chat(t.Context(), hello())
			require.NoError(t, err)
		}
		assert.Len(t, w.ofKind(llmclient.EventSuspect), 2)
	})
}

// A lateAdviser is wedged by its first question, and answers it 20 minutes later.
type lateAdviser struct{ n int }

func (l *lateAdviser) Advise(context.Context, []llmclient.InFlight) llmclient.Advice {
	if l.n++; l.n > 1 {
		return llmclient.Advice{}
	}
	time.Sleep(20 * time.Minute)
	return llmclient.Advice{State: llmclient.AdviceIdle, Why: "nothing runs"}
}

func TestStaleAdviceCutsNobody(t *testing.T) {
	inWorld(t, script(
		fake.Reply(fake.Pause(40*time.Second), fake.Answer("one")),
		fake.Reply(fake.Pause(5*time.Minute), fake.Answer("two")),
	), func(c *llmclient.Config) { c.Adviser = &lateAdviser{} }, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		time.Sleep(time.Hour)
		_, err = w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		for _, e := range w.ofKind(llmclient.EventFailed) {
			t.Errorf("cut: %v", e.Err)
		}
		assert.Len(t, w.srv.Requests(), 2)
	})
}

func TestASecondDeathIsSeenToo(t *testing.T) {
	until := func(q *fake.Request, ok fake.Step, late time.Duration) fake.Step {
		for _, out := range [][2]time.Duration{{0, 62 * time.Second}, {10 * time.Minute, time.Hour}} {
			if q.Since >= out[0] && q.Since < out[1] {
				return fake.Reply(fake.Pause(out[1]-q.Since+late), ok)
			}
		}
		return ok
	}
	srv := fake.Config{
		Script: func(q *fake.Request) fake.Step { return until(q, fake.Answer("ok"), 0) },
		Models: func(q *fake.Request) fake.Step { return until(q, fake.ModelList(), time.Millisecond) },
	}
	inWorld(t, srv, nil, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := w.client.Chat(t.Context(), hello())
			assert.NoError(t, err)
		})
		time.Sleep(50 * time.Second)
		wg.Go(func() {
			_, err := w.client.Chat(t.Context(), hello())
			assert.NoError(t, err)
		})
		wg.Wait()
		time.Sleep(11*time.Minute - time.Since(w.start))
		dead := len(w.ofKind(llmclient.EventDead))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		_, err := w.client.Chat(ctx, hello())
		require.Error(t, err)
		assert.Equal(t, dead+1, len(w.ofKind(llmclient.EventDead)), "deaths seen; %v", err)
	})
}

// No event comes from a call that has ended, even if a clock becomes suspect at the
// moment of its end.
func TestNothingIsToldOfACallThatHasEnded(t *testing.T) {
	const both = 10 * time.Second
	flaps := fake.Config{Script: func(r *fake.Request) fake.Step {
		switch {
		case r.Ordinal%7 == 0:
			return fake.Hang()
		case int(r.Since/(7*time.Second))%2 == 0:
			return fake.Reply(fake.Pause(200*time.Millisecond), fake.Answer("ok"))
		case r.Ordinal%3 == 0:
			return fake.Reset()
		}
		return fake.Unavailable()
	}}
	inWorld(t, flaps, func(c *llmclient.Config) {
		c.Clocks.FirstOutput = llmclient.Clock{Suspect: both, Limit: both}
		c.Explain = func(string) string { time.Sleep(time.Millisecond); return "" }
	}, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() { _, _ = w.client.Chat(t.Context(), hello()) })
		}
		wg.Wait()
		synctest.Wait()
		require.Len(t, w.ofKind(llmclient.EventDone), 300)
		attempts, ended := make(map[uint64]int), make(map[uint64]bool)
		for _, e := range w.events {
			if e.Call == 0 {
				continue
			}
			require.False(t, ended[e.Call], "%s after the end of call %d", e.Kind, e.Call)
			ended[e.Call] = e.Kind == llmclient.EventDone
			require.GreaterOrEqual(t, e.Attempt, attempts[e.Call], "%s of call %d", e.Kind, e.Call)
			attempts[e.Call] = e.Attempt
		}
	})
}
