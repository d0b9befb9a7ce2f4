package pacer_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/neverhang/neverhang/pacer"
)

func BenchmarkAcquire(b *testing.B) {
	for name, cfg := range map[string]pacer.Config{
		"default":   {},
		"unlimited": {StartInFlight: -1},
		"in flight": {MaxInFlight: 16, StartInFlight: -1},
		"rate":      {RequestsPerMinute: 1_000_000_000, MaxInFlight: 16},
		"tokens":    {TokensPerMinute: 1_000_000_000, MaxInFlight: 16},
	} {
		b.Run(name, func(b *testing.B) {
			p, err := pacer.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				permit, err := p.AcquireFor(ctx, pacer.Demand{Agent: "a", Tokens: 10})
				if err != nil {
					b.Fatal(err)
				}
				permit.Done(pacer.Result{Outcome: pacer.Answered, Outputs: 10, Tokens: 10})
			}
		})
	}
}

// Ten thousand goroutines share 16 permits; one operation is one admission.
// A channel of 16 places, which knows no order and no clock, is the measure.
func BenchmarkContended(b *testing.B) {
	const goroutines, places = 10_000, 16
	crowd := func(b *testing.B, once func()) {
		b.ReportAllocs()
		for b.Loop() {
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(once)
			}
			wg.Wait()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/goroutines, "ns/admission")
	}
	for name, start := range map[string]int{"pacer": 0, "pacer that learns nothing": -1} {
		b.Run(name, func(b *testing.B) {
			p, err := pacer.New(pacer.Config{MaxInFlight: places, StartInFlight: start})
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			crowd(b, func() {
				if permit, err := p.Acquire(ctx); err == nil {
					runtime.Gosched() // let others find it taken
					permit.Release()
				}
			})
		})
	}
	b.Run("channel", func(b *testing.B) {
		free := make(chan struct{}, places)
		crowd(b, func() {
			free <- struct{}{}
			runtime.Gosched()
			<-free
		})
	})
}
