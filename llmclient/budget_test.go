package llmclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBudget(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }

	t.Run("thirty-five failures at once, then ten a second", func(t *testing.T) {
		var b budget
		for i := range 35 {
			assert.Zero(t, b.take(start, costOfFailure), "retry %d", i+1)
		}
		// 10 of the 14 for the next are there.
		short := b.take(start, costOfFailure)
		assert.InDelta(t, 4.0/140, short.Seconds(), 1e-9)
		assert.InDelta(t, short.Seconds()+0.1, b.take(start, costOfFailure).Seconds(), 1e-9)
	})
	t.Run("throttles are cheaper", func(t *testing.T) {
		var b budget
		for range 100 {
			assert.Zero(t, b.take(start, costOfThrottle))
		}
		assert.NotZero(t, b.take(start, costOfThrottle))
	})
	t.Run("successes refill it", func(t *testing.T) {
		var b budget
		b.take(start, budgetSize)
		assert.NotZero(t, b.take(start, 0.001))
		b.give(start, costOfFailure+1)
		assert.Zero(t, b.take(start, costOfFailure))
	})
	t.Run("so does time, up to its size", func(t *testing.T) {
		var b budget
		b.take(start, budgetSize)
		assert.Zero(t, b.take(at(time.Second), 10*costOfFailure))
		assert.NotZero(t, b.take(at(time.Second), 1))
		assert.Zero(t, b.take(at(time.Hour), budgetSize))
		assert.NotZero(t, b.take(at(time.Hour), 1))
	})
}
