package health_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/llmclient"
)

// asker counts requests by path and by how many are under way at once.
type asker struct {
	http.RoundTripper
	mu        sync.Mutex
	now, most map[string]int // by host
	list      []string       // host and path
	keys      map[string]bool
	times     []time.Time
}

func (a *asker) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	if a.now == nil {
		a.now, a.most, a.keys = make(map[string]int), make(map[string]int), make(map[string]bool)
	}
	a.now[r.URL.Host]++
	a.most[r.URL.Host] = max(a.most[r.URL.Host], a.now[r.URL.Host])
	a.list = append(a.list, r.URL.Host+r.URL.Path)
	a.times = append(a.times, time.Now())
	if r.Header.Get("Authorization") != "" || r.Header.Get("X-Secret") != "" {
		a.keys[r.URL.Host] = true
	}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.now[r.URL.Host]--
		a.mu.Unlock()
	}()
	return a.RoundTripper.RoundTrip(r)
}

func (a *asker) count(part string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.list {
		if strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// all is how many there were.
func (a *asker) all() int { return a.count("") }

// few make enough calls to be watched.
var few = load{agents: 3, think: 4 * time.Second, prompt: 200}

func counted(a *asker, more ...func(*health.Config)) func(*health.Config) {
	return func(c *health.Config) {
		a.RoundTripper = c.HTTPClient.Transport
		c.HTTPClient = &http.Client{Transport: a}
		for _, f := range more {
			f(c)
		}
	}
}

func TestNothingIsAskedWhileNothingIsInFlight(t *testing.T) {
	var a asker
	play(t, setup{monitor: counted(&a)}, func(r *rig) {
		time.Sleep(time.Hour)
		assert.Zero(t, a.all())
		require.NoError(t, r.call("one", 1, 100, load{}))
		synctest.Wait()
		asked := a.all()
		assert.NotZero(t, asked)
		time.Sleep(time.Hour)
		assert.LessOrEqual(t, a.all(), asked+1, "one more sample after the last call, and no other")
	})
}

func TestQuestionsAreFreeAndOneAtATime(t *testing.T) {
	for _, name := range []string{"wedged-engine", "wedged-transfer", "silent-outage", "overload"} {
		t.Run(name, func(t *testing.T) {
			var a asker
			play(t, setup{server: setting(name)(1), monitor: counted(&a)}, func(r *rig) {
				r.run(few, 1)
				time.Sleep(5 * time.Minute)
				for _, path := range costly {
					assert.Zero(t, a.count(path), path)
				}
				assert.Zero(t, a.count(".test/health"), "SGLang's /health makes a token")
				a.mu.Lock()
				defer a.mu.Unlock()
				for host, n := range a.most {
					// When it is found out what a server is, several are asked.
					assert.LessOrEqual(t, n, 7, host)
				}
				perMinute := float64(len(a.list)) / 5
				assert.LessOrEqual(t, perMinute, 60.0, "questions in a minute")
			})
		})
	}
}

func TestOneThatDoesNotAnswerIsAskedLessAndLess(t *testing.T) {
	var a asker
	play(t, setup{server: setting("silent-outage", engineOf(func(c *engine.Config) { c.Changes[0].Until = 0 }))(1), monitor: counted(&a)}, func(r *rig) {
		r.run(few, 1)
		time.Sleep(changeAt)
		before := a.all()
		time.Sleep(5 * time.Minute)
		assert.LessOrEqual(t, a.all()-before, 16, "in five minutes")
		assert.Equal(t, health.StateUnreachable, r.mon.Verdict().State, "what is known does not get stale by that")
	})
}

func TestTheBudgetOfQuestions(t *testing.T) {
	var a asker
	play(t, setup{monitor: counted(&a, func(c *health.Config) { c.PerMinute = 3 })}, func(r *rig) {
		r.run(few, 1)
		time.Sleep(10 * time.Minute)
		// Finding out what it is happens once, and is bounded by itself.
		assert.LessOrEqual(t, a.count("/metrics")+a.count("/server_info"), 3+30+2)
	})
	t.Run("may be another's", func(t *testing.T) {
		var a asker
		play(t, setup{monitor: counted(&a, func(c *health.Config) { c.Allow = func() bool { return false } })}, func(r *rig) {
			r.run(few, 1)
			time.Sleep(10 * time.Minute)
			assert.LessOrEqual(t, a.all(), 4, "what it is, and no more")
		})
	})
}

func TestKeysGoNowhereElse(t *testing.T) {
	var a asker
	split := engine.ServerConfig{Engine: engine.Config{Split: &engine.Split{}, Router: &engine.Router{}}}
	play(t, setup{server: split, monitor: counted(&a, func(c *health.Config) {
		c.Targets[0].APIKey = "sk-secret"
		c.Targets[0].Header = http.Header{"X-Secret": {"abc"}}
	})}, func(r *rig) {
		r.run(few, 1)
		time.Sleep(time.Minute)
		assert.NotZero(t, a.count("prefill.model.test"))
		a.mu.Lock()
		assert.Equal(t, map[string]bool{"model.test": true}, a.keys)
		a.mu.Unlock()
		assert.NotContains(t, r.mon.Verdict().String(), "sk-secret")
	})
}

// What calls wait for while the monitor asks.
func TestAdvice(t *testing.T) {
	long := func(kind engine.Kind) engine.Config {
		return engine.Config{Changes: []engine.Change{{Kind: kind, At: changeAt}}}
	}
	t.Run("a prefill of eleven minutes that advances is not cut", func(t *testing.T) {
		cfg := engine.Config{Cost: engine.Cost{PerPrompt: 22 * time.Millisecond, Chunk: 256}}
		play(t, setup{server: engine.ServerConfig{Engine: cfg}}, func(r *rig) {
			start := time.Now()
			// The limit without evidence is ten minutes and a little for the prompt.
			err := r.call("patient", 1, 30_000, load{output: 20})
			assert.NoError(t, err)
			assert.Greater(t, time.Since(start), 11*time.Minute)
			assert.Equal(t, 1, r.cluster.Front().Requests, "one attempt")
		})
	})
	t.Run("a wedge is cut within the bound of a probe from where evidence begins", func(t *testing.T) {
		play(t, setup{server: engine.ServerConfig{Engine: long(engine.Wedge)}}, func(r *rig) {
			time.Sleep(changeAt - time.Second)
			ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
			defer cancel()
			r.ctx = ctx
			start := time.Now()
			var first time.Duration
			r.agents.Go(func() { _ = r.call("one", 1, 100, load{output: 1000}) })
			for first == 0 && time.Since(start) < time.Minute {
				time.Sleep(time.Second)
				if list := r.client.InFlight(); len(list) == 1 && list[0].Phase < llmclient.PhaseConnect && list[0].Attempt == 1 {
					first = time.Since(start)
				}
			}
			// The wedge comes a second in; thirty later evidence is asked for, every
			// 5 s, and an answer takes 4 s at most.
			assert.Greater(t, first, 30*time.Second)
			assert.LessOrEqual(t, first, 42*time.Second)
			r.agents.Wait()
		})
	})
	t.Run("the server's view does not save one that it has forgotten", func(t *testing.T) {
		cfg := engine.Config{Changes: []engine.Change{{Kind: engine.Lose, Factor: 1, At: 20 * time.Second, Until: 20*time.Second + 100*time.Millisecond}}}
		play(t, setup{server: engine.ServerConfig{Engine: cfg}}, func(r *rig) {
			r.run(load{agents: 4, think: time.Second, prompt: 100}, 1)
			time.Sleep(20*time.Second + 50*time.Millisecond)
			start := time.Now()
			require.NoError(t, r.call("lost", 1, 100, load{}))
			// Two minutes without a byte while others of like size were served.
			assert.InDelta(t, 120, time.Since(start).Seconds(), 15)
		})
	})
	t.Run("no question delays a call by more than its bound", func(t *testing.T) {
		// Both go silent at once: the calls' limit is exact.
		cfg := long(engine.Silent)
		limit := 25 * time.Second
		play(t, setup{server: engine.ServerConfig{Engine: cfg}, client: func(c *llmclient.Config) {
			c.Clocks.FirstOutput = llmclient.Clock{Limit: limit}
			c.Retry.Attempts = 1
		}}, func(r *rig) {
			time.Sleep(changeAt)
			start := time.Now()
			err := r.call("one", 1, 100, load{})
			var e *llmclient.Error
			require.True(t, errors.As(err, &e))
			assert.Equal(t, limit, time.Since(start))
			assert.Contains(t, e.Error(), "unreachable", "the error says what is known of the server")
		})
	})
}

func TestSignsOfLifeEndTheWait(t *testing.T) {
	const outage = 10 * time.Minute
	cfg := engine.Config{Changes: []engine.Change{{Kind: engine.Down, At: changeAt, Until: changeAt + outage}}}
	wait := func(watched bool) (took time.Duration) {
		play(t, setup{server: engine.ServerConfig{Engine: cfg}, client: func(c *llmclient.Config) {
			c.Breaker = breaker.Config{Failures: 3, Cooldown: 20 * time.Second, MaxCooldown: time.Hour}
			if !watched {
				c.OnEvent, c.Adviser = nil, nil
			}
		}}, func(r *rig) {
			if !watched {
				require.NoError(t, r.mon.Close())
			}
			time.Sleep(changeAt)
			for i := range 3 {
				r.agents.Go(func() { _ = r.call("agent", i, 100, load{}) })
			}
			r.agents.Wait()
			took = time.Since(r.start) - changeAt - outage
			require.Equal(t, breaker.Closed, r.client.Endpoints()[0].Breaker.State)
		})
		return took
	}
	alone, watched := wait(false), wait(true)
	t.Logf("after the outage the last of the calls was answered within %v, without a monitor %v", watched, alone)
	assert.Less(t, watched, 10*time.Second)
	assert.Greater(t, alone, 2*watched)
}

func TestClose(t *testing.T) {
	t.Run("in the middle of a question", func(t *testing.T) {
		silent := engine.Config{Changes: []engine.Change{{Kind: engine.Silent}}}
		play(t, setup{server: engine.ServerConfig{Engine: silent}}, func(r *rig) {
			r.run(load{agents: 2, prompt: 100}, 1)
			time.Sleep(2 * time.Second)
			start := time.Now()
			require.NoError(t, r.mon.Close())
			require.NoError(t, r.mon.Close())
			assert.Zero(t, time.Since(start))
			assert.Equal(t, llmclient.Advice{}, r.mon.Advise(r.t.Context(), nil), "afterwards it knows nothing")
			r.mon.Note(llmclient.Event{Kind: llmclient.EventAttempt})
			r.mon.Watch(nil)
			_ = r.mon.Check(r.t.Context())
		})
	})
}

func TestConfig(t *testing.T) {
	ok := []health.Target{{URL: "http://localhost:30000"}}
	tests := map[string]struct {
		cfg  health.Config
		want string
	}{
		"no target":          {health.Config{}, "health: Targets is empty, want at least one server"},
		"a bad one":          {health.Config{Targets: []health.Target{ok[0], {URL: "x"}}}, `health: Targets[1].URL has the scheme "", want http or https`},
		"a bad metrics URL":  {health.Config{Targets: []health.Target{{URL: "http://h", MetricsURL: "h:29000"}}}, `health: Targets[0].MetricsURL has the scheme "h", want http or https`},
		"a role":             {health.Config{Targets: []health.Target{{URL: "http://h", Role: "x"}}}, `health: Targets[0].Role is "x", want "unified", "prefill", "decode", "router" or nothing`},
		"a key with a space": {health.Config{Targets: []health.Target{{URL: "http://h", APIKey: "a b"}}}, "health: Targets[0].APIKey has white space in it"},
		"interval, short":    {health.Config{Targets: ok, Interval: time.Second - 1}, "health: Interval is 999.999999ms, want 1s to 20s"},
		"interval, long":     {health.Config{Targets: ok, Interval: 20*time.Second + 1}, "health: Interval is 20.000000001s, want 1s to 20s"},
		"timeout":            {health.Config{Targets: ok, Timeout: 5*time.Second + 1}, "health: Timeout is 5.000000001s, want more than 0 and at most 5s"},
		"samples":            {health.Config{Targets: ok, Samples: 9}, "health: Samples is 9, want at least 10"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := health.New(tt.cfg)
			assert.Nil(t, m)
			assert.EqualError(t, err, tt.want)
		})
	}
	t.Run("the bounds themselves", func(t *testing.T) {
		for _, cfg := range []health.Config{
			{Targets: ok}, {Targets: ok, Interval: time.Second}, {Targets: ok, Interval: 20 * time.Second},
			{Targets: ok, Timeout: 5 * time.Second}, {Targets: ok, Samples: 10}, {Targets: ok, PerMinute: -1},
		} {
			m, err := health.New(cfg)
			require.NoError(t, err)
			require.NoError(t, m.Close())
		}
	})
}

var (
	_ health.Client     = (*llmclient.Client)(nil)
	_ health.Client     = (*llmclient.Transport)(nil)
	_ llmclient.Adviser = (*health.Monitor)(nil)

	// What a Monitor tells clients and asks them beside, if they can.
	_ interface {
		MarkAiling(endpoint string)
		AllowProbe(endpoint string) bool
	} = (*llmclient.Client)(nil)
)

// Another SDK's calls go through a Transport, and are seen all the same.
func TestATransportIsWatched(t *testing.T) {
	cfg := engine.Config{Changes: []engine.Change{{Kind: engine.Wedge, At: changeAt}}}
	play(t, setup{server: engine.ServerConfig{Engine: cfg}}, func(r *rig) {
		tr, err := llmclient.NewTransport(llmclient.Config{
			HTTPClient: &http.Client{Transport: r.tr}, Adviser: r.mon, OnEvent: r.mon.Note,
		})
		require.NoError(t, err)
		defer tr.Close()
		r.mon.Watch(tr)
		time.Sleep(changeAt - 2*time.Second)
		ctx, cancel := context.WithTimeout(r.t.Context(), 29*time.Second)
		defer cancel()
		for range 5 {
			r.agents.Go(func() {
				body := strings.NewReader(`{"model":"sim-model","stream":true,"messages":[{"role":"user","content":"hello"}],"metadata":{"output_tokens":"2000"}}`)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.cluster.BaseURL()+"/chat/completions", body)
				if !assert.NoError(t, err) {
					return
				}
				resp, err := (&http.Client{Transport: tr}).Do(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				assert.Error(t, err)
			})
		}
		time.Sleep(27 * time.Second)
		v := r.mon.Verdict()
		assert.Equal(t, health.StateWedgedEngine, v.State, "%s", v)
		assert.Equal(t, 5, v.Uniform.Of)
		assert.Contains(t, v.String(), "breaker closed", "its breakers are seen as well")
		r.agents.Wait()
	})
}
