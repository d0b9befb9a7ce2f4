package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/llmclient"
)

// This file alone knows the embedded server, which cannot be used outside of
// this module.

// naiveFaults are the default faults with -naive.
const naiveFaults = "hang=1"

// defaultFaults hit four requests in ten, in every way that the server knows, and
// take the server down for a while. With more faults a run would only wait: retries
// are on a budget.
func defaultFaults() string {
	return "hang=0.035,headers=0.025,stall=0.045,pings=0.025,reset=0.04,cut=0.03,abrupt=0.02,short=0.01,error=0.03," +
		"abort=0.015,malformed=0.015,empty=0.01,html=0.01,endless=0.01,429=0.03,500=0.01,502=0.01,503=0.01,504=0.01," +
		"529=0.01,slow=0.05,late=0.03,outage=1s@2s"
}

func defaultHabits() string { return fakeserver.DefaultHabits().String() }

// checkOffline names the first word of the specifications that is not
// understood.
func checkOffline(o *options) error {
	if o.incident != "" && !slices.Contains(incidents(), o.incident) {
		return fmt.Errorf("-incident is %q, want one of %s", o.incident, strings.Join(incidents(), ", "))
	}
	if _, err := fakeserver.ParseFaults(o.faults); err != nil {
		return err
	}
	_, err := fakeserver.ParseHabits(o.habits)
	return err
}

// incidents are what can befall the embedded engine.
func incidents() []string { return engine.Names() }

// An incident begins incidentAt after the start of the run. By default the run lasts
// incidentTime and has incidentAgents agents. The engine is asked every
// incidentSample.
const (
	incidentAt     = 10 * time.Second
	incidentTime   = 2 * time.Minute
	incidentAgents = 24
	incidentSample = 2 * time.Second
)

// An offline is an endpoint inside this process: a server on the loopback whose
// author plays the model, or an engine that sets the pace of the author's answers.
type offline struct {
	srv    *fakeserver.Server // nil if there is an engine
	engine *engine.Cluster
	befall happening // what befalls the engine
}

// startOffline starts the server.
func startOffline(o *options) (*offline, error) {
	faults, err := fakeserver.ParseFaults(o.faults)
	if err != nil {
		return nil, err
	}
	habits, err := fakeserver.ParseHabits(o.habits)
	if err != nil {
		return nil, err
	}
	author := fakeserver.Author{Habits: habits, Seed: o.seed}
	o.model = firstOf(o.model, "author")
	if o.incident != "" {
		return startEngine(o, author)
	}
	srv, err := fakeserver.Listen(fakeserver.Config{Script: author.Reply, Faults: faults, Seed: o.seed})
	if err != nil {
		return nil, err
	}
	return &offline{srv: srv}, nil
}

// startEngine starts an engine with an incident to come.
func startEngine(o *options, author fakeserver.Author) (*offline, error) {
	cfg, err := engine.Setting(o.incident, o.seed)
	if err != nil {
		return nil, err
	}
	cfg.Model = o.model
	cfg.Cost.Step, cfg.Cost.PerPair = cfg.Cost.Step/2, cfg.Cost.PerPair/2 // articles are long
	befall := happening{name: o.incident, always: len(cfg.Changes) == 0}
	for i := range cfg.Changes {
		c := &cfg.Changes[i]
		c.At = max(0, c.At-engine.ChangeAt+incidentAt)
		if c.Until > 0 {
			c.Until = max(c.At+time.Second, c.Until-engine.ChangeAt+incidentAt)
		}
		// It has begun with the first of its changes, and is over with the last.
		switch {
		case i == 0:
			befall.from, befall.until = c.At, c.Until
		case c.Until == 0 || befall.until == 0:
			befall.until = 0
		default:
			befall.until = max(befall.until, c.Until)
		}
		befall.from = min(befall.from, c.At)
	}
	cluster, err := engine.Listen(engine.ServerConfig{Engine: cfg, Answer: author.Say, PlainHealth: true})
	if err != nil {
		return nil, err
	}
	befall.start = time.Now()
	return &offline{engine: cluster, befall: befall}, nil
}

func (f *offline) baseURL() string {
	if f.engine != nil {
		return f.engine.BaseURL()
	}
	return f.srv.BaseURL()
}

func (f *offline) close() {
	if f.engine != nil {
		f.engine.Close()
		return
	}
	f.srv.Close()
}

// targets are the servers to watch. The author alone has nothing to tell.
func (f *offline) targets() []health.Target {
	if f.engine == nil {
		return nil
	}
	return []health.Target{{URL: f.engine.BaseURL()}}
}

// tune makes everything quick: the server is in the same process, so a second of
// silence there is like minutes elsewhere.
func (f *offline) tune(cfg *llmclient.Config, group *agentloop.GroupConfig) {
	cfg.BaseURL = f.baseURL()
	if f.engine != nil {
		return // what is seen of an incident is what clients see by default
	}
	cfg.Clocks = llmclient.Clocks{
		Connect:     llmclient.Clock{Limit: time.Second},
		Send:        llmclient.Clock{Limit: time.Second},
		FirstOutput: llmclient.Clock{Limit: 1500 * time.Millisecond},
		Gap:         llmclient.Clock{Limit: time.Second},
		Attempt:     llmclient.Clock{Limit: 3 * time.Second},
		End:         llmclient.Clock{Limit: 500 * time.Millisecond},
		Call:        llmclient.Clock{Limit: 20 * time.Second},
	}
	// One of its faults is output without end, as text that repeats itself. Quotes of
	// its author may repeat themselves too, but for no more than a page; the arguments
	// of tools may repeat four times as much.
	cfg.Limits.RepeatBytes = pageSize / 3
	cfg.Retry = llmclient.Retry{Backoff: 100 * time.Millisecond, MaxBackoff: time.Second}

	// Four requests in ten fail on purpose, so a short run of failures says
	// nothing here; an outage still opens the breaker.
	cfg.Breaker.Failures = 10
	cfg.Breaker.Cooldown = 500 * time.Millisecond
	cfg.Breaker.MaxCooldown = -1 // many trials fail as well
	cfg.Breaker.TrialLimit = 3 * time.Second
	group.Restarts = 20
	group.Backoff = 200 * time.Millisecond
}

// fill puts the server's own counts into the report.
func (f *offline) fill(r *report, o *options) {
	if f.engine != nil {
		r.Run.Seed, r.Run.Incident = &o.seed, &o.incident
		return
	}
	stats := f.srv.Stats()
	r.Run.Seed, r.Run.Faults, r.Run.Habits = &o.seed, &o.faults, &o.habits
	n := stats.FaultCount()
	r.Totals.FaultsInjected, r.Totals.Faults = &n, stats.Faults
	r.Totals.ServerRequests = &stats.Requests
}
