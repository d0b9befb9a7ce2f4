package health_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/llmclient"
)

// alone is a Monitor that asks nothing.
func alone(t *testing.T, more ...func(*health.Config)) *health.Monitor {
	t.Helper()
	cfg := health.Config{
		Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: refusing{context.Canceled}},
		Allow: func() bool { return false },
	}
	for _, f := range more {
		f(&cfg)
	}
	m, err := health.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

func TestUnwatch(t *testing.T) {
	waits := llmclient.InFlight{Endpoint: "http://model.test", Phase: llmclient.PhaseFirstOutput, Since: time.Now()}
	client := func() *one {
		c := &one{}
		c.set(waits)
		return c
	}
	of := func(m *health.Monitor) int { return m.Verdict().Uniform.Of }
	t.Run("ends what Watch began", func(t *testing.T) {
		m := alone(t)
		first, second := m.Watch(client()), m.Watch(client())
		assert.Equal(t, 2, of(m))
		first()
		assert.Equal(t, 1, of(m))
		first()
		assert.Equal(t, 1, of(m), "once is enough")
		second()
		assert.Zero(t, of(m))
	})
	t.Run("one that is watched twice counts once, until both are undone", func(t *testing.T) {
		m, c := alone(t), client()
		first, second := m.Watch(c), m.Watch(c)
		assert.Equal(t, 1, of(m))
		first()
		first()
		assert.Equal(t, 1, of(m))
		second()
		assert.Zero(t, of(m))
		defer m.Watch(c)()
		assert.Equal(t, 1, of(m), "and may be watched again")
	})
	t.Run("clients that cannot be compared", func(t *testing.T) {
		m := alone(t)
		first, second := m.Watch(list{waits}), m.Watch(list{waits, waits})
		assert.Equal(t, 3, of(m))
		first()
		assert.Equal(t, 2, of(m))
		second()
		assert.Zero(t, of(m))
	})
	t.Run("no client", func(t *testing.T) { alone(t).Watch(nil)() })
	t.Run("no sample is taken of what is watched no more", func(t *testing.T) {
		observe(t, vllmPages(), &one{}, func(t *testing.T, w *watched) {
			unwatch := w.Watch(brief{})
			time.Sleep(time.Minute)
			unwatch()
			time.Sleep(15 * time.Second)
			asked := w.all()
			assert.NotZero(t, asked)
			time.Sleep(time.Hour)
			assert.Equal(t, asked, w.all())
		})
	})
}

// An adviser is another one than the Monitor.
type adviser struct{}

func (adviser) Advise(context.Context, []llmclient.InFlight) llmclient.Advice {
	return llmclient.Advice{}
}

func TestAttach(t *testing.T) {
	t.Run("fills in what is missing", func(t *testing.T) {
		m := alone(t)
		var cfg llmclient.Config
		m.Attach(&cfg)
		assert.Same(t, m, cfg.Adviser)
		assert.Empty(t, cfg.Explain(""))
		cfg.OnEvent(llmclient.Event{Kind: llmclient.EventDone, Time: time.Now()})
		v := m.Verdict()
		assert.NotEmpty(t, cfg.Explain(""))
		assert.Contains(t, v.String(), "1 answered")
	})
	t.Run("leaves what is there, and chains OnEvent", func(t *testing.T) {
		m := alone(t)
		var heard []string
		cfg := llmclient.Config{
			Adviser: adviser{}, Explain: func(string) string { return "mine" },
			OnEvent: func(e llmclient.Event) {
				heard = append(heard, fmt.Sprint(e.Call, " ", m.Verdict().State))
			},
		}
		m.Attach(&cfg)
		assert.Equal(t, adviser{}, cfg.Adviser)
		assert.Equal(t, "mine", cfg.Explain(""))
		cfg.OnEvent(llmclient.Event{Kind: llmclient.EventDone, Call: 7, Time: time.Now()})
		assert.Equal(t, []string{"7 healthy"}, heard, "once, and the Monitor knew it by then")
	})
	t.Run("nothing", func(t *testing.T) { alone(t).Attach(nil) })
}

// panics is a client whose every method does.
type panics struct{}

func (panics) InFlight() []llmclient.InFlight        { panic("InFlight") }
func (panics) Endpoints() []llmclient.EndpointStatus { panic("Endpoints") }
func (panics) MarkAlive(string)                      { panic("MarkAlive") }

// brokenHandler is a log's handler that panics.
type brokenHandler struct{ slog.Handler }

func (brokenHandler) Enabled(context.Context, slog.Level) bool { return true }

func (brokenHandler) Handle(context.Context, slog.Record) error { panic("Handle") }

// Functions of the caller that panic take nothing down, and the log says so.
func TestFunctionsThatPanic(t *testing.T) {
	run := func(t *testing.T, h slog.Handler) {
		play(t, setup{monitor: func(c *health.Config) {
			c.OnVerdict = func(health.Verdict) { panic("OnVerdict: ouch") }
			c.Local = func() []health.Activity { panic("Local: ouch") }
			c.Allow = func() bool { panic("Allow: ouch") }
			if c.Logger = nil; h != nil {
				c.Logger = slog.New(h)
			}
		}}, func(r *rig) {
			r.mon.Watch(panics{})
			r.run(load{agents: 2, think: time.Second, prompt: 100}, 1)
			time.Sleep(time.Minute)
			assert.Equal(t, health.StateHealthy, r.mon.Verdict().State)
			require.NoError(t, r.mon.Close())
		})
	}
	t.Run("with a log", func(t *testing.T) {
		var log bytes.Buffer
		run(t, slog.NewTextHandler(&log, nil))
		for _, want := range []string{
			`level=ERROR msg="health: OnVerdict panicked" err="OnVerdict: ouch" stack=`,
			`level=ERROR msg="health: Local panicked" err="Local: ouch" stack=`,
			`level=ERROR msg="health: Allow panicked" err="Allow: ouch" stack=`,
			`level=ERROR msg="health: Client panicked" err=InFlight stack=`,
			`level=ERROR msg="health: Client panicked" err=Endpoints stack=`,
			"client_test.go",
		} {
			assert.Contains(t, log.String(), want)
		}
	})
	t.Run("without a log", func(t *testing.T) { run(t, nil) })
	t.Run("with a log that panics", func(t *testing.T) { run(t, brokenHandler{slog.DiscardHandler}) })
}
