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
		"unlimited": {},
		"in flight": {MaxInFlight: 16},
		"rate":      {RequestsPerMinute: 1_000_000_000, MaxInFlight: 16},
	} {
		b.Run(name, func(b *testing.B) {
			p, err := pacer.New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				permit, err := p.Acquire(ctx)
				if err != nil {
					b.Fatal(err)
				}
				permit.Release()
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
	b.Run("pacer", func(b *testing.B) {
		p, err := pacer.New(pacer.Config{MaxInFlight: places})
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
	b.Run("channel", func(b *testing.B) {
		free := make(chan struct{}, places)
		crowd(b, func() {
			free <- struct{}{}
			runtime.Gosched()
			<-free
		})
	})
}
