package breaker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTimerThatFiresEarlyIsSetAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Config{Failures: 1})
		require.NoError(t, err)
		p, err := b.Acquire()
		require.NoError(t, err)
		p.Done(Failure)

		began := time.Now()
		time.AfterFunc(time.Second, func() {
			b.mu.Lock()
			b.timer.Stop()
			b.mu.Unlock()
			b.wake()
		})
		require.NoError(t, b.Wait(t.Context()))
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
}

// Whose context ends in the moment in which it is let go leaves its ticket to
// the next in line.
func TestWhoLeavesWithATicketGivesItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Config{Failures: 1})
		require.NoError(t, err)
		p, err := b.Acquire()
		require.NoError(t, err)
		p.Done(Failure)

		c := &b.core
		first, err := c.wait(time.Now(), time.Time{})
		require.NoError(t, err)
		second, err := c.wait(time.Now(), time.Time{})
		require.NoError(t, err)

		time.Sleep(5 * time.Second)
		c.advance(time.Now())
		assert.Nil(t, first.place, "not let go")
		assert.NotNil(t, second.place, "let go too")

		c.leave(time.Now(), first)
		assert.Nil(t, second.place, "not let go")
	})
}

// Progress is noticed without the lock, so the run that it belongs to may be over.
func TestHeadwayThatComesTooLateIsNone(t *testing.T) {
	b, err := New(Config{})
	require.NoError(t, err)
	c := &b.core
	pass := func() *Pass {
		p, err := b.Acquire()
		require.NoError(t, err)
		return p
	}
	slow := pass()
	pass().Done(Failure)
	run := c.run.Load()
	pass().Done(Success)
	pass().Done(Failure)
	require.NotEqual(t, run, c.run.Load())
	c.sign(slow, run)
	assert.Zero(t, c.signs, "the run has ended")
	c.sign(slow, c.run.Load())
	c.sign(slow, c.run.Load())
	assert.Equal(t, 1, c.signs, "one call, one sign")
	slow.Done(Ignored)
	c.sign(slow, c.run.Load())
	assert.Zero(t, c.signs, "the call has ended")
}

// The counter's clock is read a moment after ours. Should it still be open when
// our cool-down is over, a trial is a millisecond late, no more.
func TestCounterThatOpensLateIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Config{Failures: 1, Cooldown: time.Millisecond})
		require.NoError(t, err)
		p, err := b.Acquire()
		require.NoError(t, err)
		began := time.Now()
		p.Done(Failure)
		b.core.retry = began // as if the counter had opened long after us

		require.NoError(t, b.Wait(t.Context()))
		assert.Equal(t, time.Millisecond, time.Since(began))
		assert.Equal(t, HalfOpen, b.State())
	})
}
