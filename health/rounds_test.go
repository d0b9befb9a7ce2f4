package health_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// watched is a monitor of one server, whose questions are counted, and which may
// refuse connections.
type watched struct {
	*health.Monitor
	asker
	refuses atomic.Bool
	dialed  atomic.Int64
	told    []health.State
	mu      sync.Mutex
}

// monitored runs a test with a monitor of a server that answers with pages.
func monitored(t *testing.T, p pages, set func(*health.Config), test func(t *testing.T, mon *health.Monitor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := fakeserver.New(fakeserver.Config{Handler: p})
		defer srv.Close()
		tr := srv.Transport()
		tr.DisableKeepAlives = true
		cfg := health.Config{Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: tr}}
		set(&cfg)
		mon, err := health.New(cfg)
		require.NoError(t, err)
		defer mon.Close()
		test(t, mon)
	})
}

// observe is the same, with all that is asked and told in view.
func observe(t *testing.T, p pages, c health.Client, test func(t *testing.T, w *watched)) {
	t.Helper()
	w := &watched{}
	monitored(t, p, func(cfg *health.Config) {
		tr := cfg.HTTPClient.Transport.(*http.Transport)
		dial := tr.DialContext
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			w.dialed.Add(1)
			if w.refuses.Load() {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return dial(ctx, network, addr)
		}
		w.asker.RoundTripper = tr
		cfg.HTTPClient = &http.Client{Transport: w}
		cfg.OnVerdict = func(v health.Verdict) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, v.State)
		}
	}, func(t *testing.T, mon *health.Monitor) {
		w.Monitor = mon
		mon.Watch(c)
		test(t, w)
	})
}

// brief are calls that were always sent just now.
type brief struct{}

func (brief) InFlight() []llmclient.InFlight {
	return []llmclient.InFlight{{Phase: llmclient.PhaseFirstOutput, Started: time.Now(), Since: time.Now()}}
}

func vllmPages() pages {
	return pages{
		"/metrics": each(func(n int) string {
			return fmt.Sprintf("vllm:num_requests_running 1\nvllm:generation_tokens_total %d\n", 10*n+1)
		}),
		"/v1/models": text(`{"data":[{"id":"m","owned_by":"vllm"}]}`), "/version": text(`{"version":"1"}`), "/health": text(""),
	}
}

// What a server is is asked again every ten minutes, but not while calls hang,
// and what was known of one that is away stays known.
func TestWhatAServerIsIsAskedAgain(t *testing.T) {
	t.Run("every ten minutes", func(t *testing.T) {
		observe(t, vllmPages(), brief{}, func(t *testing.T, w *watched) {
			time.Sleep(time.Second)
			assert.Equal(t, 1, w.count("/metrics"), "the first sample is what was asked anyway")
			time.Sleep(25 * time.Minute)
			assert.Equal(t, 3, w.count("/version"))
		})
	})
	t.Run("not while calls hang", func(t *testing.T) {
		observe(t, vllmPages(), stuck{time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}, func(t *testing.T, w *watched) {
			time.Sleep(25 * time.Minute)
			assert.Equal(t, 1, w.count("/version"))
		})
	})
	t.Run("as soon as it can be reached", func(t *testing.T) {
		observe(t, vllmPages(), brief{}, func(t *testing.T, w *watched) {
			w.refuses.Store(true)
			time.Sleep(25 * time.Second)
			assert.Equal(t, health.KindUnknown, w.Servers()[0].Kind)
			w.refuses.Store(false)
			time.Sleep(10 * time.Second)
			assert.Equal(t, health.KindVLLM, w.Servers()[0].Kind)
		})
	})
	t.Run("one that is away just then", func(t *testing.T) {
		observe(t, vllmPages(), brief{}, func(t *testing.T, w *watched) {
			time.Sleep(9*time.Minute + 55*time.Second)
			w.refuses.Store(true)
			time.Sleep(20 * time.Second)
			w.refuses.Store(false)
			assert.Equal(t, health.KindVLLM, w.Servers()[0].Kind)
			assert.True(t, w.Servers()[0].Metrics)
			time.Sleep(10 * time.Second)
			before := w.count("/metrics")
			time.Sleep(30 * time.Second)
			assert.Equal(t, before+3, w.count("/metrics"), "its metrics are asked as ever")
			time.Sleep(time.Minute)
			assert.Equal(t, 2, w.count("/version"), "and what it is, a minute later")
		})
	})
	t.Run("one whose page of metrics hangs just then", func(t *testing.T) {
		var hangs atomic.Bool
		p := vllmPages()
		page := p["/metrics"]
		p["/metrics"] = func(w http.ResponseWriter, r *http.Request) {
			if hangs.Load() {
				<-r.Context().Done()
				return
			}
			page(w, r)
		}
		observe(t, p, brief{}, func(t *testing.T, w *watched) {
			time.Sleep(9*time.Minute + 55*time.Second)
			hangs.Store(true)
			time.Sleep(10 * time.Second)
			hangs.Store(false)
			assert.True(t, w.Servers()[0].Metrics)
			time.Sleep(30 * time.Second)
			assert.Equal(t, health.StateBusy, w.Verdict().State, "%s", w.Verdict())
		})
	})
	t.Run("for a fingerprint at once, also one that was away", func(t *testing.T) {
		observe(t, vllmPages(), brief{}, func(t *testing.T, w *watched) {
			w.refuses.Store(true)
			time.Sleep(4*time.Minute + 11*time.Second) // it is left alone for a while by now
			w.refuses.Store(false)
			assert.Equal(t, health.KindVLLM, w.Fingerprint(t.Context(), nil, nil).Servers[0].Kind)
		})
	})
}

// One that refuses connections is asked at the usual pace for a minute, and then
// less often, but never so rarely that nothing young is known.
func TestOneThatRefusesIsAskedLessAfterAMinute(t *testing.T) {
	observe(t, vllmPages(), brief{}, func(t *testing.T, w *watched) {
		time.Sleep(15 * time.Second)
		w.refuses.Store(true)
		before := w.dialed.Load()
		time.Sleep(time.Minute)
		inOne := w.dialed.Load() - before
		assert.GreaterOrEqual(t, inOne, int64(6))
		assert.Equal(t, health.StateUnreachable, w.Verdict().State)
		time.Sleep(10 * time.Minute)
		inTen := w.dialed.Load() - before - inOne
		assert.LessOrEqual(t, inTen, int64(35))
		for range 60 {
			time.Sleep(time.Second)
			assert.Equal(t, health.StateUnreachable, w.Verdict().State)
		}
	})
}

// OnVerdict hears of changes, and of nothing once the monitor is closed.
func TestWhatIsTold(t *testing.T) {
	t.Run("changes", func(t *testing.T) {
		observe(t, vllmPages(), brief{}, func(t *testing.T, w *watched) {
			time.Sleep(45 * time.Second)
			w.refuses.Store(true)
			time.Sleep(45 * time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			assert.Equal(t, states(health.StateIdle, health.StateBusy, health.StateIdle, health.StateUnreachable), w.told, "each of another state than the one before")
		})
	})
	t.Run("nothing after Close", func(t *testing.T) {
		silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		observe(t, pages{"/metrics": silent, "/v1/models": silent}, stuck{time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)}, func(t *testing.T, w *watched) {
			time.Sleep(time.Second)
			require.NoError(t, w.Close())
			time.Sleep(time.Minute)
			w.mu.Lock()
			defer w.mu.Unlock()
			assert.Empty(t, w.told, "the samples that were cut off say nothing")
		})
	})
}

// A server that restarted may be another version, and is asked what it is: not
// more than once a minute, since several may answer in turns.
func TestWhatRestartedIsAskedWhatItIs(t *testing.T) {
	begun := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	t.Run("another version", func(t *testing.T) {
		const restarts = 95 * time.Second
		p := vllmPages()
		p["/metrics"] = func(w http.ResponseWriter, r *http.Request) {
			since := time.Since(begun)
			if since > restarts {
				since -= restarts
			}
			text(fmt.Sprintf("vllm:num_requests_running 1\nvllm:generation_tokens_total %d\n", since/time.Second))(w, r)
		}
		p["/version"] = func(w http.ResponseWriter, r *http.Request) {
			text(fmt.Sprintf(`{"version":"%d"}`, 1+int(time.Since(begun)/restarts)))(w, r)
		}
		observe(t, p, brief{}, func(t *testing.T, w *watched) {
			time.Sleep(restarts - time.Second)
			assert.Equal(t, "1", w.Servers()[0].Version)
			time.Sleep(25 * time.Second)
			assert.Equal(t, "2", w.Servers()[0].Version)
		})
	})
	t.Run("several in turns", func(t *testing.T) {
		p := vllmPages()
		p["/metrics"] = each(func(n int) string { return fmt.Sprintf("vllm:generation_tokens_total %d\n", 1000*(n%2)+n) })
		observe(t, p, brief{}, func(t *testing.T, w *watched) {
			time.Sleep(5 * time.Minute)
			assert.LessOrEqual(t, w.count("/version"), 6)
		})
	})
}

// One that tells next to nothing may be another's, and count each request.
func TestOneThatTellsNothingIsAskedSeldom(t *testing.T) {
	observe(t, pages{"/v1/models": text(`{"data":[]}`)}, brief{}, func(t *testing.T, w *watched) {
		time.Sleep(5 * time.Minute)
		assert.LessOrEqual(t, w.count("/v1/models"), 13)
		assert.GreaterOrEqual(t, w.count("/v1/models"), 9)
	})
}

// The scheduler is asked when calls wait and nothing moves, and not else.
func TestWhenTheSchedulerIsAsked(t *testing.T) {
	still, moves := text("sglang:num_running_reqs 1\nsglang:generation_tokens_total 7\n"), each(func(n int) string {
		return fmt.Sprintf("sglang:num_running_reqs 1\nsglang:generation_tokens_total %d\n", 10*n+1)
	})
	waits := stuck{time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)}
	silent := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, tt := range map[string]struct {
		metrics, info http.HandlerFunc
		client        health.Client
		path          string
		least, most   int // in three minutes, besides the one that finds out what it is
	}{
		"calls wait, and nothing moves":    {still, text("{}"), waits, "/server_info", 14, 18},
		"calls wait, and it works":         {moves, text("{}"), waits, "/server_info", 0, 0},
		"nothing moves, and no call waits": {still, text("{}"), brief{}, "/server_info", 0, 0},
		"it does not answer":               {still, silent, waits, "/server_info", 5, 9},
		"an older one":                     {still, nil, waits, "/get_server_info", 14, 18},
		"an older one, by what it has not": {still, nil, waits, "/server_info", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := pages{"/metrics": tt.metrics, "/model_info": text("{}"), "/server_info": tt.info}
			if tt.info == nil {
				p["/get_server_info"] = text("{}")
			}
			observe(t, p, tt.client, func(t *testing.T, w *watched) {
				time.Sleep(3 * time.Minute)
				n := 0
				w.asker.mu.Lock()
				defer w.asker.mu.Unlock()
				for _, asked := range w.list {
					if asked == "model.test"+tt.path {
						n++
					}
				}
				assert.GreaterOrEqual(t, n-1, tt.least)
				assert.LessOrEqual(t, n-1, tt.most)
			})
		})
	}
}
