package llmclient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestAnErrorShowsTheBoundsAroundEachOther(t *testing.T) {
	quiet := fake.Config{Script: fake.Always(fake.Hang())}
	for name, tc := range map[string]struct {
		srv    fake.Config
		change func(*llmclient.Config)
		limit  time.Duration // of the caller
		want   string
	}{
		"a clock ran out": {
			srv:    quiet,
			change: func(c *llmclient.Config) { c.Clocks.FirstOutput.Limit, c.Retry.Attempts = time.Minute, 1 },
			want:   "[call 1m0s of 20m0s > attempt 1 1m0s > FirstOutput 1m0s of 1m0s]",
		},
		"the caller's deadline, in the second attempt": {
			srv:   script(fake.Reply(fake.Pause(10*time.Second), fake.Unavailable()), fake.Hang()),
			limit: 30 * time.Second,
			want:  "[caller 30s of 30s > call 30s of 20m0s > attempt 2 20s > FirstOutput 20s of 10m0s]",
		},
		"the caller's deadline, between two outputs": {
			srv:   script(fake.Reply(fake.Text("a"), fake.Pause(10*time.Second), fake.Text("b"), fake.Hang())),
			limit: 30 * time.Second,
			want:  "[caller 30s of 30s > call 20s of 20m0s > attempt 1 30s > Gap 20s of 2m0s]",
		},
		"the call's own, below the others": {
			srv:    quiet,
			change: func(c *llmclient.Config) { c.Clocks.Call.Limit = 5 * time.Second },
			want:   "[call 5s of 5s > attempt 1 5s]",
		},
		"the pacer's queue": {
			srv: quiet,
			change: func(c *llmclient.Config) {
				c.Pacer.RequestsPerMinute, c.Pacer.Burst = 1, 1
				c.Clocks.FirstOutput.Limit, c.Retry.Attempts = time.Second, 2
				c.Clocks.Queue.Limit = 90 * time.Second
			},
			want: "[call 2.5s of 20m0s > attempt 2 1s > FirstOutput 1s of 1s]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, tc.srv, tc.change, func(t *testing.T, w *world) {
				ctx := t.Context()
				if tc.limit > 0 {
					ctx = contextWith(t, tc.limit)
				}
				_, err := w.client.Chat(ctx, hello())
				require.Error(t, err)
				assert.Contains(t, err.Error(), tc.want)
			})
		})
	}
}

func TestADeadlineSaysWhoseItIs(t *testing.T) {
	inWorld(t, script(fake.Hang()), nil, func(t *testing.T, w *world) {
		cause := errors.New("the night shift ends")
		ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(5*time.Second), cause)
		defer cancel()
		_, err := w.client.Chat(ctx, hello())
		e := failure(t, err, llmclient.ErrDeadline)
		require.ErrorIs(t, err, cause)
		assert.Contains(t, err.Error(), "(the night shift ends) [caller 5s of 5s > ")
		assert.Equal(t, llmclient.Deadline{Of: "caller", Bound: 5 * time.Second, Spent: 5 * time.Second}, e.Deadlines[0])
	})
}

func TestAnErrorThatIsNotAboutTimeShowsNoBounds(t *testing.T) {
	inWorld(t, script(fake.Error(400, "", "", "no")), nil, func(t *testing.T, w *world) {
		_, err := w.client.Chat(contextWith(t, time.Minute), hello())
		e := failure(t, err, llmclient.ErrRequest)
		assert.Empty(t, e.Deadlines)
		assert.NotContains(t, err.Error(), "[")
	})
}
