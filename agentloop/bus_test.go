package agentloop

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A consumer that hangs costs its events, not memory without end. Ends, stalls and
// what else is told only once are kept even then.
func TestEventsAreDroppedBeforeMemoryIs(t *testing.T) {
	gate := make(chan struct{})
	heard := map[EventKind]int{}
	b := newBus(&GroupConfig{OnEvent: func(e Event) {
		<-gate
		heard[e.Kind]++
	}})
	const over = 1000
	for range maxQueued + over {
		b.emit(Event{Kind: EventRound})
	}
	vital := []EventKind{EventEnded, EventStalled, EventSystemic, EventRecovered, EventUncertain, EventToolAbandoned, EventGroupEnded}
	for range 45 {
		for _, kind := range vital {
			b.emit(Event{Kind: kind})
		}
	}
	close(gate)
	dropped := b.close(flushTime)
	<-b.done
	for _, kind := range vital {
		assert.Equal(t, 45, heard[kind], kind)
	}
	assert.Equal(t, maxQueued+over, heard[EventRound]+dropped)
	assert.InDelta(t, over, dropped, 1, "one may be in the consumer's hands")
}
