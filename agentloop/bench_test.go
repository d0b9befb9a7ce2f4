package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// The price of a round (request, answer, one call, result) does not depend on
// how long the conversation is.
func BenchmarkRound(b *testing.B) {
	poll := agentloop.Tool{Name: "poll", Run: func(context.Context, raw) (string, error) { return "x", nil }}
	resp := &chat.Response{Message: chat.Message{ToolCalls: []chat.ToolCall{call("", "poll", `{"a":1}`)}}}
	for _, before := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprintf("after=%d", before), func(b *testing.B) {
			b.ReportAllocs()
			msgs := []chat.Message{chat.User("go")}
			for range before / 2 {
				msgs = append(msgs, chat.Assistant("a"), chat.User("b"))
			}
			n, rounds := 0, b.N
			model := agentloop.ModelFunc(func(context.Context, *chat.Request) (*chat.Response, error) {
				if n == 0 {
					b.ResetTimer() // the copy of the conversation is made
				}
				if n++; n > rounds {
					return says("end")(nil, nil)
				}
				return resp, nil
			})
			a, err := agentloop.New(agentloop.Config{
				Name: "a", Model: model, Messages: msgs, Tools: []agentloop.Tool{poll}, MaxRounds: -1, Repeats: -1,
			})
			if err != nil {
				b.Fatal(err)
			}
			if res := a.Run(b.Context()); res.Outcome != agentloop.Done {
				b.Fatal(res.Err)
			}
		})
	}
}

// Ten thousand agents wait for a silent server, and are all named at the
// deadline: how late, and for how much memory each, beside what they hold in any
// case, which is their conversation and a call that hangs.
func BenchmarkSilentServer(b *testing.B) {
	const agents, task = 10_000, 4000
	client := silentServer(b)
	var list []*agentloop.Agent
	for i := range agents {
		a, err := agentloop.New(agentloop.Config{Name: fmt.Sprint(i), Model: client, Task: strings.Repeat("x", task)})
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, a)
	}
	const deadline = 10 * time.Second
	g, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: list, Timeout: deadline})
	if err != nil {
		b.Fatal(err)
	}
	bare := hungCalls(b, client, agents)
	var late time.Duration
	var each float64
	for b.Loop() {
		before := inUse()
		measured := make(chan float64)
		go func() {
			time.Sleep(deadline * 2 / 3)
			measured <- float64(inUse()-before) / agents
		}()
		rep := g.Run(b.Context())
		each = <-measured
		// On a machine that is busy with other things a call may miss its grace.
		if n := rep.Counts[agentloop.Exhausted]; n < agents*99/100 || n+rep.Counts[agentloop.Abandoned] != agents {
			b.Fatal(rep.Counts)
		}
		late = max(late, rep.Duration-deadline)
	}
	b.ReportMetric(float64(late.Milliseconds()), "ms-late")
	b.ReportMetric(each, "B/agent")
	b.ReportMetric(bare, "B/call")
	b.ReportMetric((each+task)/(bare+task), "times-bare")
	b.ReportMetric(0, "ns/op")
}

// silentServer returns a model that asks, over net/http, a server that accepts
// everything and never answers.
func silentServer(b *testing.B) agentloop.ModelFunc {
	t := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return &silentConn{closed: make(chan struct{})}, nil
	}}
	b.Cleanup(t.CloseIdleConnections)
	client := &http.Client{Transport: t}
	return func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://silent/v1", strings.NewReader("{}"))
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(r)
		if err != nil {
			return nil, err
		}
		return nil, errors.Join(errors.New("it answered"), resp.Body.Close())
	}
}

type silentConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *silentConn) Write(p []byte) (int, error) { return len(p), nil }
func (c *silentConn) Read([]byte) (int, error)    { <-c.closed; return 0, net.ErrClosed }
func (c *silentConn) Close() error                { c.once.Do(func() { close(c.closed) }); return nil }

// hungCalls measures what a call that hangs takes by itself.
func hungCalls(b *testing.B, client agentloop.ModelFunc, n int) float64 {
	before := inUse()
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for range n {
		req := &chat.Request{Messages: []chat.Message{chat.User("x")}}
		wg.Go(func() { _, _ = client.Chat(ctx, req) })
	}
	time.Sleep(time.Second)
	each := float64(inUse()-before) / float64(n)
	cancel()
	wg.Wait()
	return each
}

// inUse is the memory of heap and stacks.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
