package benchmarks

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/pacer"
)

// BenchmarkPermitAndPass is what a request pays for both, with nobody else
// there.
func BenchmarkPermitAndPass(b *testing.B) {
	p, err := pacer.New(pacer.Config{})
	if err != nil {
		b.Fatal(err)
	}
	br, err := breaker.New(breaker.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		permit, err := p.AcquireFor(ctx, pacer.Demand{Agent: "a"})
		if err != nil {
			b.Fatal(err)
		}
		pass, err := br.Acquire()
		if err != nil {
			b.Fatal(err)
		}
		pass.Done(breaker.Success)
		permit.Done(pacer.Result{Outcome: pacer.Answered, Outputs: 100})
	}
}

// BenchmarkCrowd is ten thousand goroutines on 16 permits, beside
// x/sync/semaphore, which knows no order of agents and no clock.
func BenchmarkCrowd(b *testing.B) {
	const goroutines, places = 10_000, 16
	crowd := func(b *testing.B, once func(ctx context.Context)) {
		ctx := context.Background()
		b.ReportAllocs()
		for b.Loop() {
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() { once(ctx) })
			}
			wg.Wait()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/goroutines, "ns/admission")
	}
	b.Run("pacer", func(b *testing.B) {
		p, err := pacer.New(pacer.Config{MaxInFlight: places, StartInFlight: places})
		if err != nil {
			b.Fatal(err)
		}
		crowd(b, func(ctx context.Context) {
			if permit, err := p.AcquireFor(ctx, pacer.Demand{}); err == nil {
				runtime.Gosched() // let others find it taken
				permit.Release()
			}
		})
	})
	b.Run("semaphore", func(b *testing.B) {
		sem := semaphore.NewWeighted(places)
		crowd(b, func(ctx context.Context) {
			if sem.Acquire(ctx, 1) == nil {
				runtime.Gosched()
				sem.Release(1)
			}
		})
	})
}
