package health_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
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
	"github.com/neverhang/neverhang/pacer"
)

// A client that is cut on the server's account of what it has loses half a minute
// each time a request is lost. Going by the calls that overtake it alone, it lost
// two minutes the first time, and ten the second.
func TestWhatTheServerDoesNotHaveIsCutEachTime(t *testing.T) {
	cfg := engine.Config{Changes: []engine.Change{{Kind: engine.Lose, Factor: 0.3, At: changeAt}}}
	play(t, setup{server: engine.ServerConfig{Engine: cfg}, client: func(c *llmclient.Config) { c.Retry.Attempts = 8 }}, func(r *rig) {
		var mu sync.Mutex
		var calls, twice int
		var most time.Duration
		for a := range 12 {
			r.agents.Go(func() {
				for n := 0; r.ctx.Err() == nil; n++ {
					start := time.Now()
					err := r.call(fmt.Sprintf("agent %d", a), n, 200, load{})
					if r.ctx.Err() != nil {
						return
					}
					assert.NoError(t, err)
					took := time.Since(start)
					mu.Lock()
					calls++
					most = max(most, took)
					if took > time.Minute {
						twice++
					}
					mu.Unlock()
					rest(r.ctx, 2*time.Second)
				}
			})
		}
		time.Sleep(5 * time.Minute)
		assert.Equal(t, breaker.Closed, r.client.Endpoints()[0].Breaker.State, "others are served")
		assert.Zero(t, r.client.Endpoints()[0].Breaker.Failed, "nothing is held against it")
		r.stop()
		r.agents.Wait()
		assert.Greater(t, calls, 200)
		assert.Greater(t, twice, 3, "some are lost more than once")
		assert.Less(t, most, 5*40*time.Second, "with five losses in a row")
	})
}

// two is a service of two engines behind one address. The second one gets a
// quarter of its calls. The names of their hosts are a.test and b.test.
func two(t *testing.T, a, b engine.Config, test func(t *testing.T, client *llmclient.Client, mon *health.Monitor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var fronts []http.Handler
		for _, cfg := range []engine.Config{a, b} {
			eng, err := engine.New(engine.ServerConfig{Engine: cfg})
			require.NoError(t, err)
			defer eng.Close()
			fronts = append(fronts, eng.Handler(engine.Front))
		}
		var posts atomic.Int64
		srv := fakeserver.New(fakeserver.Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to := 0
			switch {
			case strings.HasPrefix(r.Host, "b."):
				to = 1
			case r.Method == http.MethodPost:
				to = [8]int{0, 0, 1, 0, 0, 0, 0, 1}[posts.Add(1)%8]
			}
			fronts[to].ServeHTTP(w, r)
		})})
		defer srv.Close()
		calls, probes := srv.Transport(), srv.Transport()
		defer calls.CloseIdleConnections()
		probes.DisableKeepAlives = true
		mon, err := health.New(health.Config{
			Targets:    []health.Target{{URL: "http://a.test", Name: "a"}, {URL: "http://b.test", Name: "b"}},
			HTTPClient: &http.Client{Transport: probes},
		})
		require.NoError(t, err)
		defer mon.Close()
		client, err := llmclient.New(llmclient.Config{
			BaseURL: "http://lb.test/v1", Model: "sim-model", HTTPClient: &http.Client{Transport: calls},
			Pacer: pacer.Config{StartInFlight: -1}, Retry: llmclient.Retry{Attempts: 8},
			Adviser: mon, OnEvent: mon.Note, Explain: mon.Explain,
		})
		require.NoError(t, err)
		defer client.Close()
		mon.Watch(client)
		test(t, client, mon)
	})
}

// One of two engines stops. It is named, and what waits there is cut and served
// by the other one.
func TestOneOfTwoEnginesIsWedged(t *testing.T) {
	wedged := engine.Config{Changes: []engine.Change{{Kind: engine.Wedge, At: changeAt}}}
	two(t, engine.Config{}, wedged, func(t *testing.T, client *llmclient.Client, mon *health.Monitor) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		r := &rig{t: t, client: client, ctx: ctx, start: time.Now()}
		var calls atomic.Int64
		for a := range 8 {
			r.agents.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					start := time.Now()
					if err := r.call(fmt.Sprintf("agent %d", a), n, 200, load{}); ctx.Err() == nil {
						assert.NoError(t, err)
						assert.Less(t, time.Since(start), 4*time.Minute)
						calls.Add(1)
					}
					rest(ctx, 4*time.Second)
				}
			})
		}
		time.Sleep(changeAt + 25*time.Second)
		v := mon.Verdict()
		assert.Contains(t, states(health.StateWedgedEngine, health.StateFrontEndAlone), v.State, "%s", v)
		assert.Equal(t, "b", v.Evidence[0].Of)
		time.Sleep(10 * time.Minute)
		assert.Equal(t, breaker.Closed, client.Endpoints()[0].Breaker.State)
		stop()
		r.agents.Wait()
		assert.Greater(t, calls.Load(), int64(200))
	})
}

// What is said of the calls that wait when a part of the service has stopped: of
// those that others have overtaken, and of no others.
func TestAdviceIsAboutTheCallsThatAreLost(t *testing.T) {
	works := each(func(n int) string {
		return fmt.Sprintf("sglang:num_running_reqs 2\nsglang:generation_tokens_total %d\n", 100*n+1)
	})
	still := text("sglang:num_running_reqs 2\nsglang:generation_tokens_total 7\nsglang:realtime_tokens_total{mode=\"prefill_compute\"} 7\n")
	tests := map[string]struct {
		a, b  http.HandlerFunc
		serve bool // others are answered
		want  llmclient.Advice
	}{
		"one engine of two stands still, and others overtake": {works, still, true, llmclient.Advice{State: llmclient.AdviceLost, Calls: []uint64{1}}},
		"and nobody has overtaken them":                       {works, still, false, llmclient.Advice{}},
		"both stand still":                                    {still, still, false, llmclient.Advice{State: llmclient.AdviceIdle}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := fakeserver.New(fakeserver.Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					page := pages{"/metrics": tt.a}
					if strings.HasPrefix(r.Host, "b.") {
						page = pages{"/metrics": tt.b}
					}
					page.ServeHTTP(w, r)
				})})
				defer srv.Close()
				tr := srv.Transport()
				tr.DisableKeepAlives = true
				mon, err := health.New(health.Config{
					Targets:    []health.Target{{URL: "http://a.test", Name: "a"}, {URL: "http://b.test", Name: "b"}},
					HTTPClient: &http.Client{Transport: tr},
				})
				require.NoError(t, err)
				defer mon.Close()
				start := time.Now()
				// Two like those that are answered, and one with a very long prompt.
				waiting := []llmclient.InFlight{
					{Call: 1, Phase: llmclient.PhaseFirstOutput, Since: start, PromptBytes: 1000},
					{Call: 2, Phase: llmclient.PhaseFirstOutput, Since: start, PromptBytes: 100_000},
					{Call: 3, Phase: llmclient.PhaseFirstOutput, Since: start.Add(30 * time.Second), PromptBytes: 1000},
				}
				mon.Watch(list(waiting))
				for i := range 35 {
					time.Sleep(time.Second)
					if tt.serve {
						mon.Note(llmclient.Event{
							Kind: llmclient.EventDone, Call: uint64(10 + i), Time: time.Now(), After: 800 * time.Millisecond,
							PromptBytes: 1200, FirstOutput: 200 * time.Millisecond, Outputs: 20,
						})
					}
				}
				got := mon.Advise(t.Context(), waiting)
				assert.NotEmpty(t, got.Why)
				got.Why = ""
				assert.Equal(t, tt.want, got, "%s", mon.Verdict())
			})
		})
	}
}

// list is a client with calls in flight.
type list []llmclient.InFlight

func (l list) InFlight() []llmclient.InFlight { return l }

// clerk is a client that shows one endpoint, and notes what it is told.
type clerk struct {
	stuck
	state              breaker.State
	held               bool        // its calls wait for the breaker
	broke              atomic.Bool // no budget is left
	asked, alive, ails atomic.Int64
}

func (c *clerk) InFlight() []llmclient.InFlight {
	calls := c.stuck.InFlight()
	for i := range calls {
		if c.held {
			calls[i].Phase = llmclient.PhaseBreaker
		}
	}
	return calls
}

func (c *clerk) Endpoints() []llmclient.EndpointStatus {
	return []llmclient.EndpointStatus{{Name: "http://model.test/v1", Breaker: breaker.Stats{State: c.state}}}
}

func (c *clerk) MarkAlive(string)  { c.alive.Add(1) }
func (c *clerk) MarkAiling(string) { c.ails.Add(1) }

func (c *clerk) AllowProbe(endpoint string) bool {
	if endpoint == "http://model.test/v1" {
		c.asked.Add(1)
	}
	return !c.broke.Load()
}

func TestWhatClientsAreTold(t *testing.T) {
	still := "sglang:num_running_reqs 3\nsglang:num_queue_reqs 0\nsglang:generation_tokens_total 100\nsglang:realtime_tokens_total{mode=\"prefill_compute\"} 7\n"
	works := each(func(n int) string {
		return fmt.Sprintf("sglang:num_running_reqs %d\nsglang:num_queue_reqs 0\nsglang:generation_tokens_total %d\n", 3+n%2, 100*n+1)
	})
	tests := map[string]struct {
		pages       pages
		state       breaker.State
		elsewhere   bool // the monitor is about another endpoint
		held        bool // calls wait for the breaker
		alive, ails bool
	}{
		"it works while our breaker is open":              {pages{"/metrics": works}, breaker.Open, false, false, true, false},
		"and while it is half open":                       {pages{"/metrics": works}, breaker.HalfOpen, false, false, true, false},
		"nothing while it is closed":                      {pages{"/metrics": works}, breaker.Closed, false, false, false, false},
		"it is wedged, and a trial would be in vain":      {pages{"/metrics": text(still)}, breaker.Open, false, false, false, true},
		"wedged, and calls go there":                      {pages{"/metrics": text(still)}, breaker.Closed, false, false, false, false},
		"not known, so that a trial is the way to know":   {pages{}, breaker.Open, false, false, true, false},
		"it answers with errors":                          {pages{"/metrics": status(500), "/v1/models": status(500)}, breaker.Open, false, false, false, false},
		"our breaker alone holds the calls back":          {pages{"/metrics": works}, breaker.Open, false, true, true, false},
		"of another endpoint than that it is nothing new": {pages{"/metrics": works}, breaker.Open, true, false, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := fakeserver.New(fakeserver.Config{Handler: tt.pages})
				defer srv.Close()
				tr := srv.Transport()
				tr.DisableKeepAlives = true
				cfg := health.Config{Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: tr}}
				if tt.elsewhere {
					cfg.Endpoint = "http://another.test/v1"
				}
				mon, err := health.New(cfg)
				require.NoError(t, err)
				defer mon.Close()
				c := &clerk{stuck: stuck{time.Now()}, state: tt.state, held: tt.held}
				mon.Watch(c)
				time.Sleep(25 * time.Second) // until it is known
				c.alive.Store(0)
				c.ails.Store(0)
				time.Sleep(20 * time.Second)
				if tt.held {
					assert.Equal(t, health.StateOwnBreaker, mon.Verdict().State)
				}
				assert.Equal(t, tt.alive, c.alive.Load() > 0, "signs of life: %s", mon.Verdict())
				assert.Equal(t, tt.ails, c.ails.Load() > 0, "that it ails: %s", mon.Verdict())
			})
		})
	}
}

// Questions draw on the budget that the client's retries have.
func TestQuestionsShareTheBudgetOfRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		srv := fakeserver.New(fakeserver.Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			pages{"/metrics": text("vllm:num_requests_running 3\n"), "/v1/models": text("{}")}.ServeHTTP(w, r)
		})})
		defer srv.Close()
		tr := srv.Transport()
		tr.DisableKeepAlives = true
		mon, err := health.New(health.Config{Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: tr}})
		require.NoError(t, err)
		defer mon.Close()
		c := &clerk{stuck: stuck{time.Now()}}
		mon.Watch(c)
		time.Sleep(65 * time.Second) // between two samples
		first := asked.Load()
		assert.NotZero(t, c.asked.Load())
		assert.GreaterOrEqual(t, first, c.asked.Load(), "each question is paid for once, but for those that find out what it is")
		c.broke.Store(true)
		time.Sleep(time.Minute)
		assert.Equal(t, first, asked.Load(), "nothing is asked on credit")
		c.broke.Store(false)
		time.Sleep(time.Minute)
		assert.Greater(t, asked.Load(), first)
	})
}

// Questions about one endpoint are not paid for by another, and what one budget
// refuses no other allows.
func TestWhoPaysForQuestions(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg        health.Config
		paid, asks bool
	}{
		"the client's endpoint":               {health.Config{Endpoint: "http://model.test/v1"}, true, true},
		"another of its endpoints":            {health.Config{Endpoint: "http://another.test/v1"}, false, true},
		"our own is used up":                  {health.Config{PerMinute: 1, Allow: func() bool { return true }}, true, false},
		"the shared one is":                   {health.Config{Allow: func() bool { return false }}, false, false},
		"our own is without a bound":          {health.Config{PerMinute: -1}, true, true},
		"and the shared one is, all the same": {health.Config{PerMinute: -1, Allow: func() bool { return false }}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				srv := fakeserver.New(fakeserver.Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked.Add(1)
					pages{"/metrics": text("vllm:num_requests_running 3\n")}.ServeHTTP(w, r)
				})})
				defer srv.Close()
				tr := srv.Transport()
				tr.DisableKeepAlives = true
				tt.cfg.Targets, tt.cfg.HTTPClient = []health.Target{{URL: "http://model.test"}}, &http.Client{Transport: tr}
				mon, err := health.New(tt.cfg)
				require.NoError(t, err)
				defer mon.Close()
				c := &clerk{stuck: stuck{time.Now()}}
				mon.Watch(c)
				time.Sleep(time.Second)
				start := asked.Load() // what it is, and its first sample
				require.NotZero(t, start)
				if tt.cfg.Endpoint != "" && !tt.paid {
					// Its calls are elsewhere, and one is said to be here.
					mon.Note(llmclient.Event{Kind: llmclient.EventAttempt, Endpoint: tt.cfg.Endpoint})
				}
				time.Sleep(2 * time.Minute)
				assert.Equal(t, tt.paid, c.asked.Load() > 0)
				if tt.asks {
					assert.GreaterOrEqual(t, asked.Load()-start, int64(12))
				} else {
					assert.LessOrEqual(t, asked.Load()-start, int64(2), "one a minute")
				}
			})
		})
	}
}

// While it is seen to be wedged fewer trials are sent to it, and when it goes on
// calls are soon served all the same.
func TestTrialsThatWouldBeInVainAreNotMade(t *testing.T) {
	const heals = 6 * time.Minute
	cfg := engine.Config{Changes: []engine.Change{{Kind: engine.Wedge, At: changeAt, Until: changeAt + heals}}}
	night := func(watched bool) (sent int, late time.Duration) {
		play(t, setup{server: engine.ServerConfig{Engine: cfg}, client: func(c *llmclient.Config) {
			c.Breaker = breaker.Config{Failures: 3, Cooldown: 20 * time.Second, MaxCooldown: -1, TrialLimit: 10 * time.Second}
			c.Retry.Attempts = 100
			c.Clocks.Call = llmclient.Clock{Limit: time.Hour}
			c.Clocks.FirstOutput = llmclient.Clock{Limit: 15 * time.Second}
			if !watched {
				c.OnEvent, c.Adviser = nil, nil
			}
		}}, func(r *rig) {
			if !watched {
				require.NoError(t, r.mon.Close())
			}
			r.run(load{agents: 4, think: time.Second, prompt: 100, pause: time.Hour, pauses: []time.Duration{changeAt + time.Second}}, 1)
			time.Sleep(changeAt + 10*time.Second)
			before := r.cluster.Front().Requests
			time.Sleep(heals - 20*time.Second)
			sent = r.cluster.Front().Requests - before
			for len(r.client.InFlight()) > 0 {
				time.Sleep(time.Second)
			}
			late = time.Since(r.start) - changeAt - heals
		})
		return sent, late
	}
	alone, aloneLate := night(false)
	watched, late := night(true)
	t.Logf("requests sent while it was wedged: %d, without a monitor %d; served after it went on: %v and %v", watched, alone, late, aloneLate)
	assert.Less(t, 2*watched, alone+2)
	assert.Less(t, late, time.Minute)
}
