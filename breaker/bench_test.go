package breaker_test

import (
	"context"
	"testing"

	"github.com/sony/gobreaker/v2"

	"github.com/neverhang/neverhang/breaker"
)

func BenchmarkAcquire(b *testing.B) {
	b.Run("closed", func(b *testing.B) {
		br, err := breaker.New(breaker.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			p, err := br.Acquire()
			if err != nil {
				b.Fatal(err)
			}
			p.Done(breaker.Success)
		}
	})
	b.Run("refused", func(b *testing.B) {
		br, err := breaker.New(breaker.Config{Failures: 1, Cooldown: 1 << 62, MaxCooldown: 1 << 62})
		if err != nil {
			b.Fatal(err)
		}
		p, err := br.Acquire()
		if err != nil {
			b.Fatal(err)
		}
		p.Done(breaker.Failure)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := br.Acquire(); err == nil {
				b.Fatal("not refused")
			}
		}
	})
	b.Run("counter alone", func(b *testing.B) { // what is underneath
		cb := gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{})
		b.ReportAllocs()
		for b.Loop() {
			done, err := cb.Allow()
			if err != nil {
				b.Fatal(err)
			}
			done(nil)
		}
	})
}

func BenchmarkWaitClosed(b *testing.B) {
	br, err := breaker.New(breaker.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if err := br.Wait(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
