package health_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// A load is agents that make calls one after the other.
type load struct {
	agents int
	think  time.Duration // between two calls of an agent
	prompt int           // tokens
	grow   int           // more with each call of an agent
	wide   bool          // prompts of some agents are very much longer
	output int           // tokens; 0 leaves it to the engine
	file   int           // tokens of each ninth answer of an agent, if not 0
	limit  time.Duration // the callers' patience; 0 is none
	begin  time.Duration // since the start
	pause  time.Duration // in which they rest, and then begin again
	pauses []time.Duration
}

// A rig is a simulated service, a client of it, and a monitor of both.
type rig struct {
	t       *testing.T
	cluster *engine.Cluster
	client  *llmclient.Client
	mon     *health.Monitor
	start   time.Time
	stop    context.CancelFunc
	ctx     context.Context
	agents  sync.WaitGroup
	local   []health.Activity
	tr      *http.Transport
	probes  *http.Transport
}

type setup struct {
	server  engine.ServerConfig
	client  func(*llmclient.Config)
	monitor func(*health.Config)
}

// play runs a test against a service in virtual time.
func play(t *testing.T, s setup, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := engine.Start(s.server)
		require.NoError(t, err)
		defer c.Close()
		r := &rig{t: t, cluster: c, start: time.Now(), tr: c.Transport(), probes: c.Transport()}
		defer r.tr.CloseIdleConnections()
		defer r.probes.CloseIdleConnections()
		r.tr.MaxIdleConnsPerHost = 100
		r.probes.DisableKeepAlives = true
		mc := health.Config{
			Targets:    []health.Target{{URL: c.BaseURL()}},
			HTTPClient: &http.Client{Transport: r.probes},
			Interval:   10 * time.Second,
			Local:      func() []health.Activity { return r.local },
		}
		if s.monitor != nil {
			s.monitor(&mc)
		}
		r.mon, err = health.New(mc)
		require.NoError(t, err)
		defer r.mon.Close()
		cc := llmclient.Config{
			BaseURL: c.BaseURL(), Model: "sim-model", HTTPClient: &http.Client{Transport: r.tr},
			Pacer:   pacer.Config{StartInFlight: -1}, // what we look at is the server, under all the load
			Adviser: r.mon, OnEvent: r.mon.Note, Explain: r.mon.Explain,
		}
		if s.client != nil {
			s.client(&cc)
		}
		r.client, err = llmclient.New(cc)
		require.NoError(t, err)
		defer r.client.Close()
		r.mon.Watch(r.client)
		r.ctx, r.stop = context.WithCancel(t.Context())
		defer r.agents.Wait()
		defer r.stop()
		test(r)
	})
}

// run starts the agents of a load.
func (r *rig) run(l load, seed uint64) {
	for i := range l.agents {
		r.agents.Go(func() { r.agent(l, i, seed) })
	}
}

func (r *rig) agent(l load, i int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, uint64(i)))
	if !rest(r.ctx, l.begin+time.Duration(rnd.Int64N(int64(max(l.think, time.Second))))) {
		return
	}
	tokens := l.prompt
	for n := 0; ; n++ {
		size := tokens
		if l.wide {
			size = l.prompt
			if n%6 == 5 {
				size = 40 * l.prompt
			}
		}
		this := l
		if l.file > 0 && n%9 == 8 {
			this.output = l.file
		}
		if err := r.call(fmt.Sprintf("agent %d", i), n, size, this); err != nil && !rest(r.ctx, time.Second) {
			return
		}
		tokens += l.grow
		if l.grow > 0 && tokens > 60*l.prompt {
			tokens = l.prompt
		}
		think := time.Duration(float64(l.think) * (0.5 + rnd.Float64()))
		if l.pause > 0 {
			for _, at := range l.pauses {
				if since := time.Since(r.start) - at; since >= 0 && since < l.pause {
					think += l.pause - since
				}
			}
		}
		if !rest(r.ctx, think) {
			return
		}
	}
}

// call makes one, whose prompt really has the size, since the client goes by
// its bytes.
func (r *rig) call(who string, n, tokens int, l load) error {
	meta := map[string]string{"prompt_tokens": strconv.Itoa(tokens)}
	if l.output > 0 {
		meta["output_tokens"] = strconv.Itoa(l.output)
	}
	b, _ := json.Marshal(meta)
	req := &chat.Request{
		Caller: who, User: who, Seed: new(int64(n)),
		Messages: []chat.Message{chat.User(fmt.Sprintf("%s %d ", who, n) + filler(4*tokens))},
		Extra:    map[string]json.RawMessage{"metadata": b},
	}
	ctx := r.ctx
	if l.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.limit)
		defer cancel()
	}
	_, err := r.client.Chat(ctx, req)
	return err
}

var fillers sync.Map

func filler(n int) string {
	if s, ok := fillers.Load(n); ok {
		return s.(string)
	}
	s := strings.Repeat("word ", n/5+1)[:n]
	fillers.Store(n, s)
	return s
}

func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
