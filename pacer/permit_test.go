package pacer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A clock that is set back does not make a permit deaf to output.
func TestOutputIsHeardAfterTheClockWasSetBack(t *testing.T) {
	p, err := New(Config{})
	require.NoError(t, err)
	p.born = jumped(p.born, -time.Hour) // it was an hour ahead then
	permit, err := p.Acquire(t.Context())
	require.NoError(t, err)
	permit.Output(1)
	assert.LessOrEqual(t, time.Duration(permit.due.Load()), time.Minute, "when output is next heard of")
	assert.Positive(t, permit.due.Load())
}

// A permit that ends while something is told of it is told nothing more.
func TestNothingIsToldOfAPermitThatHasEnded(t *testing.T) {
	p, err := New(Config{})
	require.NoError(t, err)
	permit, err := p.Acquire(t.Context())
	require.NoError(t, err)
	told := 0
	p.tell(permit, func(*core, time.Time) { told++ })
	permit.Release()
	p.tell(permit, func(*core, time.Time) { told++ })
	assert.Equal(t, 1, told)
}
