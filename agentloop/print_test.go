package agentloop_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/agentloop"
)

func TestReportsAndEventsAreReadable(t *testing.T) {
	r := &agentloop.Report{
		Duration: 12340 * time.Millisecond,
		Results: []agentloop.Result{
			{Name: "a", Outcome: agentloop.Done, Rounds: 3},
			{Name: "b", Outcome: agentloop.Stalled, Rounds: 1, Duration: 5 * time.Minute, Missing: []string{"write", "save"}, Err: errors.New("no life for 5m0s")},
		},
		Counts:    map[agentloop.Outcome]int{agentloop.Done: 1, agentloop.Stalled: 1},
		Abandoned: []agentloop.Abandonment{{Agent: "b", In: "tool fetch", Waited: time.Second, Stack: "goroutine 1 …"}},
		Uncertain: []agentloop.Uncertainty{{Agent: "b", Tool: "send"}},
		Stalls:    1,
		Err:       errors.New("the deadline passed"),
	}
	assert.Equal(t, `2 agents in 12.34s: 1 done, 1 stalled, 1 stall told; the deadline passed
b: stalled after 1 round and 5m0s, missing write, save: no life for 5m0s
left behind: tool fetch of b, after 1s
uncertain: send of b`, fmt.Sprint(r))
	assert.Equal(t, "no report", (*agentloop.Report)(nil).String())
	assert.Equal(t, "a: done after 3 rounds and 0s", r.Results[0].String())
	e := agentloop.Event{
		Time: time.Date(2026, 2, 16, 3, 47, 0, 0, time.UTC), Agent: "b", Kind: agentloop.EventStalled, Round: 2, Tool: "fetch",
		After: time.Minute, Text: "nothing moved", Err: errors.New("stalled"),
	}
	assert.Equal(t, "03:47:00 b stalled fetch (round 2) after 1m0s: nothing moved: stalled", fmt.Sprint(e))
}
