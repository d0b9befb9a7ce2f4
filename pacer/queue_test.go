package pacer

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// by is callers of one agent.
func by(agent string, names ...string) do { return with(Demand{Agent: agent}, names...) }

// with is callers with a demand.
func with(d Demand, names ...string) do {
	return func(r *rig) {
		for _, who := range names {
			ask(who, 0, d)(r)
		}
	}
}

// turns gives the one place back n times, and notes who gets it.
func turns(n int) do {
	return func(r *rig) {
		for range n {
			for who := range r.seats {
				release(who)(r)
				break
			}
		}
	}
}

func TestQueue(t *testing.T) {
	one := Config{MaxInFlight: 1}
	finish := Config{MaxInFlight: 1, FinishFirst: true}
	many := func(prefix string, n int) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprint(prefix, i+1))
		}
		return names
	}
	// in is the log of names that are admitted at time zero, in order.
	in := func(names ...string) (log []string) {
		for _, who := range names {
			log = append(log, "0s "+who+" in")
		}
		return log
	}
	run(t, map[string]table{
		"agents take turns, however many each has waiting": {
			cfg:   one,
			steps: []step{{0, by("a", "a1", "a2", "a3", "a4")}, {0, by("b", "b1", "b2")}, {0, by("c", "c1")}, {0, turns(7)}},
			want:  in("a1", "a2", "b1", "c1", "a3", "b2", "a4"),
		},
		"who comes back at once stands behind the others": {
			cfg:   one,
			steps: []step{{0, by("a", "a1", "a2")}, {0, by("b", "b1")}, {0, turns(1)}, {0, by("a", "a3")}, {0, turns(3)}},
			want:  in("a1", "a2", "b1", "a3"),
		},
		"those without a name are one agent": {
			cfg:   one,
			steps: []step{{0, enter("x1", "x2", "x3")}, {0, by("a", "a1")}, {0, turns(4)}},
			want:  in("x1", "x2", "a1", "x3"),
		},
		"a higher priority goes first": {
			cfg:   one,
			steps: []step{{0, by("a", "a1", "a2")}, {0, with(Demand{Agent: "b", Priority: 1}, "b1", "b2")}, {0, with(Demand{Agent: "c", Priority: -1}, "c1")}, {0, turns(5)}},
			want:  in("a1", "b1", "b2", "a2", "c1"),
		},
		"and those who are passed over go after eight": {
			cfg: one,
			steps: []step{{0, enter("x")}, {0, with(Demand{Agent: "lo", Priority: -5}, "lo1", "lo2")},
				{0, with(Demand{Agent: "hi", Priority: 5}, many("h", 20)...)}, {0, turns(20)}},
			want: in("x", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "lo1", "h9", "h10", "h11", "h12", "h13", "h14", "h15", "h16", "lo2", "h17", "h18"),
		},
		"each level that is passed over counts for itself": {
			cfg: one,
			steps: []step{{0, enter("x")}, {0, with(Demand{Agent: "lo", Priority: -5}, "lo")}, {0, with(Demand{Agent: "hi", Priority: 5}, many("h", 20)...)},
				{0, turns(4)}, {0, with(Demand{Agent: "mid"}, "mid")}, {0, turns(10)}},
			want: in("x", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "lo", "h9", "h10", "h11", "h12", "mid"),
		},
		"who comes after one that left is passed over as often as any": {
			cfg: one,
			steps: []step{{0, enter("x")}, {0, with(Demand{Agent: "hi", Priority: 5}, many("h", 20)...)}, {0, with(Demand{Agent: "lo"}, "lo1")}, {0, turns(7)},
				{0, leave("lo1")}, {0, with(Demand{Agent: "lo"}, "lo2")}, {0, turns(9)}},
			want: in("x", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "h10", "h11", "h12", "h13", "h14", "h15", "lo2"),
		},
		"no priority is too high or too low": {
			cfg: one,
			steps: []step{{0, enter("x")}, {0, with(Demand{Priority: math.MinInt}, "lowest")}, {0, enter("y")}, {0, with(Demand{Priority: math.MaxInt}, "highest")},
				{0, turns(3)}},
			want: in("x", "highest", "y", "lowest"),
		},
		"finishing goes first, where that is asked for": {
			cfg:   finish,
			steps: []step{{0, by("a", "a1", "a2")}, {0, with(Demand{Agent: "b", Finishing: true}, "b1")}, {0, turns(3)}},
			want:  in("a1", "b1", "a2"),
		},
		"and those who begin go after eight that finish": {
			cfg: finish,
			steps: []step{{0, enter("x")}, {0, by("a", "a1")}, {0, with(Demand{Agent: "b", Finishing: true}, many("f", 20)...)},
				{0, turns(10)}},
			want: in("x", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "a1", "f9"),
		},
		"and not over a priority": {
			cfg:   finish,
			steps: []step{{0, enter("x")}, {0, with(Demand{Agent: "b", Finishing: true}, "b1")}, {0, with(Demand{Agent: "a", Priority: 1}, "a1")}, {0, turns(3)}},
			want:  in("x", "a1", "b1"),
		},
		"without being asked for it is not": {
			cfg:   one,
			steps: []step{{0, by("a", "a1", "a2")}, {0, with(Demand{Agent: "b", Finishing: true}, "b1")}, {0, turns(3)}},
			want:  in("a1", "a2", "b1"),
		},
		"who leaves out of the middle leaves the order to the others": {
			cfg:   one,
			steps: []step{{0, by("a", "a1", "a2", "a3")}, {0, by("b", "b1", "b2")}, {0, leave("a2")}, {0, leave("b1")}, {0, turns(3)}},
			want:  in("a1", "a3", "b2"),
		},
		"the last of a level leaves, and it begins anew": {
			cfg: one,
			steps: []step{{0, enter("x")}, {0, with(Demand{Agent: "b", Priority: 1}, "b1")}, {0, leave("b1")}, {0, by("a", "a1")},
				{0, with(Demand{Agent: "c", Priority: 1}, "c1")}, {0, turns(3)}},
			want: in("x", "c1", "a1"),
		},
	})
}

func TestPlace(t *testing.T) {
	r := newRig(t, Config{MaxInFlight: 1})
	by("a", "a1", "a2", "a3")(r)
	by("b", "b1")(r)
	with(Demand{Agent: "c", Priority: 1}, "c1")(r)
	at := func(who string) Place { return r.core.place(r.now, r.waiting[who]) }
	assert.Equal(t, Place{Ahead: 0, For: ReasonInFlight}, at("c1"))
	assert.Equal(t, Place{Ahead: 1, For: ReasonInFlight}, at("a2"))
	assert.Equal(t, Place{Ahead: 2, For: ReasonInFlight}, at("b1"))
	assert.Equal(t, Place{Ahead: 3, For: ReasonInFlight}, at("a3"))

	// The line moves every two seconds.
	r.until(2 * time.Second)
	turns(1)(r)
	r.until(4 * time.Second)
	turns(1)(r)
	r.until(5 * time.Second)
	assert.Equal(t, Place{Ahead: 0, Waited: 5 * time.Second, For: ReasonInFlight, Expected: time.Second}, at("b1"))
	assert.Equal(t, Place{Ahead: 1, Waited: 5 * time.Second, For: ReasonInFlight, Expected: 3 * time.Second}, at("a3"))
	r.until(9 * time.Second)
	assert.Equal(t, Place{Ahead: 1, Waited: 9 * time.Second, For: ReasonInFlight}, at("a3"), "any moment now")

	// The queue is empty for an hour, which does not count as its pace.
	turns(2)(r)
	r.until(time.Hour)
	by("d", "d1", "d2")(r)
	gap := r.core.pace.gap
	turns(1)(r)
	assert.Equal(t, gap, r.core.pace.gap)
	assert.Equal(t, Place{For: ReasonInFlight, Expected: gap}, at("d2"))
}

// A caller that waits for an allowance of the server sees how long that takes.
func TestPlaceBeforeALimitThatWasTold(t *testing.T) {
	r := newRig(t, Config{})
	enter("x")(r)
	hears("x", Allowance{Reset: 7 * time.Second, AtOnce: true})(r)
	enter("a")(r)
	r.until(2 * time.Second)
	assert.Equal(t, Place{Waited: 2 * time.Second, For: ReasonAllotted, Expected: 5 * time.Second}, r.core.place(r.now, r.waiting["a"]))
}

// Agents that ask once each leave nothing behind, whether they are served or leave.
func TestAgentsAreForgotten(t *testing.T) {
	p, err := New(Config{StartInFlight: 1, MaxInFlight: 1, MaxQueue: -1})
	require.NoError(t, err)
	c := &p.core
	now := epoch
	var held seat
	require.True(t, c.try(now, Demand{}, &held))
	var stay, leave []*waiter
	for i := range 100_000 {
		d := Demand{Agent: fmt.Sprint("agent ", i)}
		if i%2 == 0 {
			d.Priority = i % 7
		}
		w, err := c.enter(now, time.Time{}, d, new(seat))
		require.NoError(t, err)
		if i%2 == 0 {
			leave = append(leave, w)
		} else {
			stay = append(stay, w)
		}
	}
	for _, w := range leave {
		c.leave(now, w)
	}
	s := &held
	for _, w := range stay {
		now = now.Add(time.Millisecond)
		c.firstOutput(now, s, time.Millisecond)
		c.exit(now, s, Result{Outcome: Answered, Outputs: 10}, true)
		s = w.seat
		require.Nil(t, w.lane, "in order of arrival")
	}
	c.exit(now, s, Result{}, true)
	assert.Zero(t, c.inFlight)
	assert.Zero(t, c.queue.len)
	assert.Empty(t, c.queue.levels)
	assert.Len(t, c.queue.spare.lanes, 1)
	assert.Nil(t, c.out.oldest)
	assert.Nil(t, c.climb.unheard.next)
	assert.Zero(t, c.climb.unheard.forgotten)
	assert.LessOrEqual(t, cap(c.climb.round), mostPoints*2)
}
