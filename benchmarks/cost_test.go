package benchmarks

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/pacer"
)

// permitAndPass returns what a request does with both.
func permitAndPass(t testing.TB) func() {
	p, err := pacer.New(pacer.Config{})
	require.NoError(t, err)
	br, err := breaker.New(breaker.Config{})
	require.NoError(t, err)
	ctx := context.Background()
	return func() {
		permit, err := p.AcquireFor(ctx, pacer.Demand{Agent: "a"})
		if err != nil {
			t.Fatal(err)
		}
		pass, err := br.Acquire()
		if err != nil {
			t.Fatal(err)
		}
		pass.Done(breaker.Success)
		permit.Done(pacer.Result{Outcome: pacer.Answered, Outputs: 100})
	}
}

// BenchmarkPermitAndPass is what a request pays for both, with nobody else
// there.
func BenchmarkPermitAndPass(b *testing.B) {
	once := permitAndPass(b)
	b.ReportAllocs()
	for b.Loop() {
		once()
	}
}

// TestCost holds what a request pays for both against what it pays anywhere: for
// a semaphore and for the time, measured side by side and in spells so short that
// a busy machine leaves some of them alone.
func TestCost(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	ctx := context.Background()
	spell := func(once func()) time.Duration {
		began := time.Now()
		for range 500 {
			once()
		}
		return time.Since(began) / 500
	}
	both, base := time.Hour, time.Hour
	once := permitAndPass(t)
	for range 200 {
		both = min(both, spell(once))
		base = min(base, spell(func() {
			if sem.Acquire(ctx, 1) == nil {
				sem.Release(1)
			}
			_ = time.Now()
		}))
	}
	allocs := testing.AllocsPerRun(1000, once)
	t.Logf("a permit and a pass: %v and %v allocations; a semaphore and the time: %v", both, allocs, base)
	assert.LessOrEqual(t, allocs, 2.0)
	if raced {
		return // then each access to memory has another price
	}
	assert.LessOrEqual(t, float64(both)/float64(base), 6.0, "%v, and %v for a semaphore and the time", both, base)
}

const goroutines, places = 10_000, 16

// crowd has ten thousand goroutines pass through once each.
func crowd(once func(ctx context.Context)) {
	ctx := context.Background()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() { once(ctx) })
	}
	wg.Wait()
}

func throughPacer(t testing.TB) func(ctx context.Context) {
	p, err := pacer.New(pacer.Config{MaxInFlight: places, StartInFlight: places})
	require.NoError(t, err)
	return func(ctx context.Context) {
		if permit, err := p.AcquireFor(ctx, pacer.Demand{}); err == nil {
			runtime.Gosched() // let others find it taken
			permit.Release()
		}
	}
}

func throughSemaphore() func(ctx context.Context) {
	sem := semaphore.NewWeighted(places)
	return func(ctx context.Context) {
		if sem.Acquire(ctx, 1) == nil {
			runtime.Gosched()
			sem.Release(1)
		}
	}
}

// BenchmarkCrowd is ten thousand goroutines on 16 permits, beside
// x/sync/semaphore, which knows no order of agents and no clock.
func BenchmarkCrowd(b *testing.B) {
	for name, once := range map[string]func(ctx context.Context){"pacer": throughPacer(b), "semaphore": throughSemaphore()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				crowd(once)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/goroutines, "ns/admission")
		})
	}
}
