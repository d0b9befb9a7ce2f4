package agentloop_test

import (
	"context"
	"fmt"
	"strings"
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

// Thousands of agents that wait for a silent server, and are all named at the
// deadline: how late, and for how much memory each.
func BenchmarkSilentServer(b *testing.B) {
	const agents = 10_000
	var list []*agentloop.Agent
	for i := range agents {
		a, err := agentloop.New(agentloop.Config{
			Name: fmt.Sprint(i), Model: agentloop.ModelFunc(silent), Task: strings.Repeat("x", 1000)})
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, a)
	}
	const deadline = 500 * time.Millisecond
	g, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: list, Deadline: deadline})
	if err != nil {
		b.Fatal(err)
	}
	var late time.Duration
	b.ReportAllocs()
	for b.Loop() {
		rep := g.Run(b.Context())
		if rep.Counts[agentloop.Exhausted] != agents {
			b.Fatal(rep.Counts)
		}
		late = max(late, rep.Duration-deadline)
	}
	b.ReportMetric(float64(late.Milliseconds()), "ms-late")
	b.ReportMetric(0, "ns/op")
}
