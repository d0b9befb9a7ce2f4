package llmclient_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
)

// A full outage of a minute, with 64 callers waiting in their calls: little is
// sent while it lasts, and when it is over all are served, without a spike.
func TestAFullOutage(t *testing.T) {
	const outage = time.Minute
	down := map[string]fake.Step{
		"refusing":       fake.Unavailable(),
		"bad gateway":    fake.Status(502, "<html>bad gateway</html>"),
		"resetting":      fake.Reset(),
		"answering late": fake.Reply(fake.Pause(3*time.Second), fake.Error(500, "server_error", "", "oops")),
	}
	for name, reply := range down {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fake.Config{Script: func(r *fake.Request) fake.Step {
				if r.Since < outage {
					return reply
				}
				return fake.Reply(fake.Pause(time.Second), fake.Answer("ok"))
			}}, nil, func(t *testing.T, w *world) {
				var wg sync.WaitGroup
				served := make([]time.Duration, 64)
				for i := range served {
					wg.Go(func() {
						_, err := w.client.Chat(t.Context(), hello())
						assert.NoError(t, err)
						served[i] = time.Since(w.start)
					})
				}
				wg.Wait()
				at := w.arrivals()
				slices.Sort(at)
				during, _ := slices.BinarySearch(at, outage)
				assert.LessOrEqual(t, during, 76, "1.2 requests a call while it lasts")
				later := at[during:]
				require.Len(t, later, 64)
				s := w.client.Breaker()
				assert.Equal(t, breaker.Closed, s.State)
				slices.Sort(served)
				assert.LessOrEqual(t, served[0], outage+30*time.Second+2*time.Second, "the first within one trial interval")
				for i := range later {
					if j := i + 16; j < len(later) {
						assert.Greater(t, later[j]-later[i], 250*time.Millisecond, "a quarter of them within a quarter of a second")
					}
				}
				assert.LessOrEqual(t, served[63], outage+60*time.Second)
			})
		})
	}
}
