package health_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/llmclient"
)

// slowTransport answers late, and does not hear that its request was cancelled.
type slowTransport struct {
	http.RoundTripper
	takes time.Duration
}

func (s slowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(s.takes)
	return s.RoundTripper.RoundTrip(r)
}

func TestCloseWaits(t *testing.T) {
	t.Run("for a transport that cannot be cancelled", func(t *testing.T) {
		monitored(t, vllmPages(), func(c *health.Config) {
			c.HTTPClient.Transport = slowTransport{c.HTTPClient.Transport, 3 * time.Second}
		}, func(t *testing.T, mon *health.Monitor) {
			mon.Watch(brief{})
			time.Sleep(time.Second)
			start := time.Now()
			require.NoError(t, mon.Close())
			assert.Equal(t, 2*time.Second, time.Since(start))
		})
	})
	t.Run("for OnVerdict", func(t *testing.T) {
		var told atomic.Bool
		monitored(t, vllmPages(), func(c *health.Config) {
			c.OnVerdict = func(health.Verdict) { time.Sleep(3 * time.Second); told.Store(true) }
		}, func(t *testing.T, mon *health.Monitor) {
			mon.Watch(brief{})
			time.Sleep(time.Second)
			require.NoError(t, mon.Close())
			assert.True(t, told.Load())
		})
	})
}

func TestNoRoundBeginsAfterClose(t *testing.T) {
	var allowed atomic.Int64
	monitored(t, vllmPages(), func(c *health.Config) { c.Allow = func() bool { allowed.Add(1); return true } }, func(t *testing.T, mon *health.Monitor) {
		mon.Watch(brief{})
		time.Sleep(15 * time.Second)
		require.NoError(t, mon.Close())
		asked := allowed.Load()
		require.NotZero(t, asked)
		time.Sleep(time.Minute)
		mon.Check(t.Context())
		mon.Advise(t.Context(), waiting(1, 0))
		synctest.Wait()
		assert.Equal(t, asked, allowed.Load())
	})
}

// A question to the scheduler that Close has cut off shows nothing of it.
func TestWhatCloseCutsOffIsNoSilence(t *testing.T) {
	var asked atomic.Int64
	silent := func(_ http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 { // the first finds out what it is
			<-r.Context().Done()
		}
	}
	p := pages{"/metrics": text("sglang:num_running_reqs 1\nsglang:generation_tokens_total 7\n"), "/model_info": text("{}"), "/server_info": silent}
	for name, tt := range map[string]struct {
		close time.Duration
		deaf  bool
	}{
		"cut off":   {11 * time.Second, false},
		"timed out": {15 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			monitored(t, p, func(*health.Config) {}, func(t *testing.T, mon *health.Monitor) {
				mon.Watch(stuck{time.Now().Add(-time.Minute)})
				time.Sleep(tt.close)
				require.EqualValues(t, 2, asked.Load())
				require.NoError(t, mon.Close())
				v := mon.Verdict().String()
				if tt.deaf {
					assert.Contains(t, v, "its scheduler does not answer")
				} else {
					assert.NotContains(t, v, "its scheduler does not answer")
				}
			})
		})
	}
}

// After the last call there is one more sample, which shows how it ended.
func TestOneMoreSampleAfterTheLastCall(t *testing.T) {
	c := &one{}
	c.set(brief{}.InFlight()...)
	observe(t, vllmPages(), c, func(t *testing.T, w *watched) {
		time.Sleep(15 * time.Second)
		assert.Equal(t, 2, w.count("/metrics"))
		c.set()
		time.Sleep(time.Hour)
		assert.Equal(t, 3, w.count("/metrics"))
	})
}

// many is a client that shows several endpoints.
type many struct {
	list
	endpoints []llmclient.EndpointStatus
}

func (m many) Endpoints() []llmclient.EndpointStatus { return m.endpoints }
func (many) MarkAlive(string)                        {}

func TestOtherEndpointsAreNotShown(t *testing.T) {
	const mine, other = "http://model.test/v1", "http://another.test/v1"
	c := many{endpoints: []llmclient.EndpointStatus{{Name: mine}, {Name: other}}}
	c.endpoints[0].Pacer.Queued, c.endpoints[1].Pacer.Queued = 31, 77
	for endpoint, shown := range map[string][2]bool{mine: {true, false}, other: {false, true}, "": {true, true}} {
		m := alone(t, func(cfg *health.Config) { cfg.Endpoint = endpoint })
		m.Watch(c)
		v := m.Verdict().String()
		for i, text := range []string{"31 waiting", "77 waiting"} {
			if shown[i] {
				assert.Contains(t, v, text, endpoint)
			} else {
				assert.NotContains(t, v, text, endpoint)
			}
		}
	}
}

// A Local that has nothing to tell rules a stuck tool out. Without one that is not
// known.
func TestWhatLocalRulesOut(t *testing.T) {
	rulesOut := func(local func() []health.Activity) bool {
		m := alone(t, func(cfg *health.Config) { cfg.Local = local })
		for _, e := range m.Verdict().RuledOut {
			if e.State == health.StateStuckTool {
				return true
			}
		}
		return false
	}
	assert.False(t, rulesOut(nil))
	assert.True(t, rulesOut(func() []health.Activity { return nil }))
	assert.True(t, rulesOut(func() []health.Activity { return []health.Activity{{Caller: "a", What: "tool", Since: time.Now()}} }))
}
