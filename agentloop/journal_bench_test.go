package agentloop_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/journal"
	"github.com/neverhang/neverhang/chat"
)

// What a journal costs 45 agents whose every round has a side effect, held
// against what the disk allows: 45 writers that append a line to files of their
// own and sync each.
func BenchmarkJournal(b *testing.B) {
	const agents, rounds = 45, 200
	alone := fsyncsPerSecond(b, agents, rounds)
	var perSecond float64
	for b.Loop() {
		j, err := journal.Open(journal.Config{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		var list []*agentloop.Agent
		for i := range agents {
			n := 0
			model := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
				if n++; n > rounds {
					return says("end")(ctx, req)
				}
				return calls(call("", "act", fmt.Sprintf(`{"i":%d}`, n)))(ctx, req)
			})
			act := agentloop.Tool{Name: "act", Run: func(_ context.Context, args raw) (string, error) { return string(args), nil }}
			a, err := agentloop.New(agentloop.Config{Name: fmt.Sprint(i), Model: model, Task: "x", Tools: []agentloop.Tool{act}, MaxRounds: -1})
			if err != nil {
				b.Fatal(err)
			}
			list = append(list, a)
		}
		g, err := agentloop.NewGroup(agentloop.GroupConfig{Agents: list, Journal: j})
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		rep := g.Run(b.Context())
		if !rep.Done() {
			b.Fatal(rep.Results[0].Err)
		}
		perSecond = agents * rounds / time.Since(start).Seconds()
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(perSecond, "rounds/s")
	b.ReportMetric(alone, "fsyncs/s")
	b.ReportMetric(perSecond/alone, "of-fsync-alone")
	b.ReportMetric(0, "ns/op")
}

// fsyncsPerSecond measures what the disk allows by itself.
func fsyncsPerSecond(b *testing.B, writers, each int) float64 {
	dir := b.TempDir()
	line := make([]byte, 300)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
			if err != nil {
				b.Error(err)
				return
			}
			defer f.Close()
			for range each {
				if _, err := f.Write(line); err != nil {
					b.Error(err)
				}
				if err := f.Sync(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return float64(writers*each) / time.Since(start).Seconds()
}
