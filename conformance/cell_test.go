package conformance_test

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// bound is how long a caller waits, in virtual time, before a call counts as
// hung. Three times ten minutes is the longest that any of the libraries
// bounds a call by itself.
const bound = 45 * time.Minute

const day = 24 * time.Hour

// A verdict is what became of a call.
type verdict string

const (
	ok        verdict = "ok"         // the whole answer
	wrong     verdict = "wrong"      // success, with something else than the whole answer
	failed    verdict = "error"      // an error, after the server had failed
	falseKill verdict = "false kill" // an error, though the server was healthy
	hung      verdict = "hung"       // nothing within bound
	absent    verdict = "–"          // the fault does not exist in this form
)

// A cell is one call: a library, a way to ask, a fault, and whether our
// Transport is between them.
type cell struct {
	sdk   sdk
	mode  mode
	fault fault
	under bool // under the SDK is our Transport
	quiet bool // the SDK's own retries are off

	patience time.Duration // what counts as hung; zero means bound
}

// A result is what a cell has shown.
type result struct {
	verdict  verdict
	after    time.Duration
	requests int // that the server received
	err      error
	got      answer
	above    int // events that say that the SDK retries by itself
}

// run makes the call in a bubble of virtual time.
func (c cell) run(t *testing.T) (r result) {
	t.Helper()
	s := c.sdk.wire.speak(c.mode, c.fault.text())
	replies := c.fault.replies(s)
	if replies == nil {
		return result{verdict: absent}
	}
	synctest.Test(t, func(t *testing.T) {
		srv := fake.New(fake.Config{Script: fake.Sequence(replies...), Net: c.fault.net})
		defer srv.Close()
		base := srv.Transport()
		base.DialContext = dialer(base.DialContext)
		base.ResponseHeaderTimeout = c.sdk.headers
		defer base.CloseIdleConnections()
		var events events
		below := c.sdk.wire.route(base)
		client := &http.Client{Transport: below}
		if c.under {
			base.ResponseHeaderTimeout = 0 // the Transport stands in for it
			tr, err := llmclient.NewTransport(llmclient.Config{
				HTTPClient: &http.Client{Transport: below}, // the network is in memory
				OnEvent:    events.add,
			})
			require.NoError(t, err)
			defer func() {
				synctest.Wait()
				assert.Empty(t, tr.InFlight(), "requests in flight when the SDK had returned")
				for _, c := range tr.Clients() {
					assert.Zero(t, c.Pacer().InFlight, "permits out when the SDK had returned")
				}
				_ = tr.Close()
			}()
			client.Transport = tr
		}
		client.Transport = lag{client.Transport}
		r = c.ask(question{base: srv.BaseURL(), client: client, mode: c.mode, quiet: c.quiet}, srv.Close)
		r.requests = len(srv.Requests())
		r.above = events.count(llmclient.EventRetriedAbove)
	})
	return r
}

// lag is the moment that passes between an SDK and what is below it. In a
// bubble code takes no time, and a timeout of the SDK would otherwise meet a
// clock of the same length in the same instant, which it never does.
type lag struct{ http.RoundTripper }

func (l lag) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond)
	return l.RoundTripper.RoundTrip(req)
}

// dialer bounds a dial as http.DefaultTransport does, which is what the SDKs
// have below them otherwise.
func dialer(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return dial(ctx, network, addr)
	}
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// ask puts the question and waits for what becomes of it, at most for bound.
// What is hung then is cancelled, so that nothing stays behind; last frees an SDK
// that takes no notice of that.
func (c cell) ask(q question, last func()) result {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	patience := cmp.Or(c.patience, bound)
	start := time.Now()
	done := make(chan result, 1)
	go func() {
		var r result
		r.got, r.err = c.sdk.ask(ctx, q)
		r.after = time.Since(start)
		done <- r
	}()
	select {
	case r := <-done:
		r.verdict = c.judge(r)
		return r
	case <-time.After(patience):
	}
	cancel()
	select {
	case <-done:
	case <-time.After(time.Minute):
		last()
		<-done
	}
	return result{verdict: hung, after: patience}
}

func (c cell) judge(r result) verdict {
	want := answer{text: c.fault.text()}
	if c.mode.tools {
		want = answer{tool: toolName, args: toolArgs(c.fault.text())}
	}
	switch {
	case r.err != nil && c.fault.due == answered:
		return falseKill
	case r.err != nil:
		return failed
	case r.got == want:
		return ok
	}
	return wrong
}

// owed returns the verdicts that are right for a cell with our Transport.
func (c cell) owed() []verdict {
	switch c.fault.due {
	case mended:
		if c.fault.below || c.sdk.wire.understood {
			return []verdict{ok}
		}
		return []verdict{ok, failed}
	case told:
		if !c.mode.streamed && c.sdk.wire.understood {
			return []verdict{ok} // plain answers are checked before they are handed on
		}
		return []verdict{ok, failed}
	case denied:
		return []verdict{failed}
	}
	return []verdict{ok}
}

// events keeps what a Transport tells.
type events struct {
	mu   sync.Mutex
	list []llmclient.Event
}

func (e *events) add(ev llmclient.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
}

func (e *events) count(kind llmclient.EventKind) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, ev := range e.list {
		if ev.Kind == kind {
			n++
		}
	}
	return n
}
