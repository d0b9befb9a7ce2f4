package health_test

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/llmclient"
)

// The engine's process is dead and the front end lives: health and version are
// answered, completions get their headers, and nothing follows.
func TestAFrontEndThatOnlyLooksAlive(t *testing.T) {
	const heals = 4 * time.Minute
	for _, dialect := range []engine.Dialect{engine.VLLM, engine.SGLang} {
		t.Run(string(dialect), func(t *testing.T) {
			cfg := engine.ServerConfig{
				Dialect: dialect, EarlyHeaders: true, PlainHealth: true,
				Engine: engine.Config{Changes: []engine.Change{{Kind: engine.Wedge, At: changeAt, Until: changeAt + heals}}},
			}
			var told sync.Map // states
			play(t, setup{server: cfg, monitor: func(c *health.Config) {
				c.OnVerdict = func(v health.Verdict) { told.LoadOrStore(v.State, v.At) }
			}, client: func(c *llmclient.Config) {
				c.Clocks.FirstOutput.Limit = 28 * time.Second // before evidence could cut
				c.Retry.Attempts = 1
				c.WhenOpen = llmclient.FailFast
			}}, func(r *rig) {
				r.run(ordinary, 1)
				time.Sleep(changeAt + 2*time.Second)
				r.stop()
				r.agents.Wait()
				r.ctx = r.t.Context()
				var explained, open, other atomic.Int32
				var wg sync.WaitGroup
				for i := range 10 {
					wg.Go(func() {
						err := r.call("agent", i, 200, load{})
						var e *llmclient.Error
						switch {
						case errors.As(err, &e) && e.Kind == llmclient.ErrTimeout && e.Verdict != "":
							explained.Add(1)
						case errors.Is(err, breaker.ErrOpen):
							open.Add(1)
						default:
							other.Add(1)
							t.Errorf("call ended with %v", err)
						}
					})
				}
				wg.Wait()
				assert.Equal(t, int32(10), explained.Load()+open.Load())
				assert.NotZero(t, explained.Load(), "the error says what the server says meanwhile")
				assert.NotEqual(t, breaker.Closed, r.client.Endpoints()[0].Breaker.State)
				stopped := false
				for _, s := range states(health.StateWedgedEngine, health.StateFrontEndAlone, health.StateCannotTell) {
					_, said := told.Load(s)
					stopped = stopped || said
				}
				assert.True(t, stopped, "%s", r.mon.Verdict())
				_, healthy := told.Load(health.StateLost)
				assert.False(t, healthy, "what stands still is no account of what the server has")

				time.Sleep(heals)
				for i := range 4 {
					require.NoError(t, r.call("agent", 100+i, 200, load{}))
				}
				assert.Equal(t, breaker.Closed, r.client.Endpoints()[0].Breaker.State)
				assert.Equal(t, health.StateRecovered, r.mon.Verdict().State, "%s", r.mon.Verdict())
			})
		})
	}
}

// Some requests are forgotten, and the server is idle and serves new ones: each
// call is answered, and what was forgotten is not held against the endpoint.
func TestSomeRequestsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng, err := engine.New(engine.ServerConfig{PlainHealth: true})
		require.NoError(t, err)
		defer eng.Close()
		front := eng.Handler(engine.Front)
		var posts atomic.Int32
		srv := fakeserver.New(fakeserver.Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			forgets := false
			if r.Method == http.MethodPost {
				n := posts.Add(1)
				forgets = n%5 == 0 && n <= 25 // no call should be so unlucky thrice
			}
			if forgets {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			}
			front.ServeHTTP(w, r)
		})})
		defer srv.Close()
		tr := srv.Transport()
		defer tr.CloseIdleConnections()
		web := &http.Client{Transport: tr}
		var lost atomic.Bool
		mon, err := health.New(health.Config{
			Targets: []health.Target{{URL: srv.URL()}}, HTTPClient: web,
			OnVerdict: func(v health.Verdict) {
				if v.State == health.StateLost {
					lost.Store(true)
				}
			},
		})
		require.NoError(t, err)
		defer mon.Close()
		client, err := llmclient.New(llmclient.Config{
			// One that is forgotten twice waits for its limit of ten minutes.
			Clocks:  llmclient.Clocks{Call: llmclient.Clock{Limit: time.Hour}},
			BaseURL: srv.URL() + "/v1", Model: "sim-model", HTTPClient: web, Adviser: mon, OnEvent: mon.Note, Explain: mon.Explain,
		})
		require.NoError(t, err)
		defer client.Close()
		mon.Watch(client)
		r := &rig{t: t, client: client, ctx: t.Context()}
		for a := range 20 {
			r.agents.Go(func() {
				for i := range 5 {
					assert.NoError(t, r.call("agent", 100*a+i, 200, load{}))
				}
			})
		}
		r.agents.Wait()
		assert.True(t, lost.Load(), "it is seen")
		assert.Equal(t, breaker.Closed, client.Endpoints()[0].Breaker.State)
		assert.LessOrEqual(t, posts.Load(), int32(200))
	})
}
