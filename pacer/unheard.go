package pacer

import "time"

const (
	longBefore  = 8                      // usual waits for the first output by which one that is served began later
	leastBefore = 250 * time.Millisecond // and this at least
)

// unheard are the requests under way that have given no output yet. One that had
// been waiting for long when another began that is served nevertheless got lost on
// its way or is forgotten by the server: it takes no place there, however long we
// go on waiting for it.
type unheard struct {
	next      *seat // of the roll, the oldest that waits; those before it do not, or are forgotten
	forgotten int
}

// A silence is what is known of a request that has given no output.
type silence int

const (
	notSilent silence = iota // it has, or it has ended
	silent                   // it waits
	forgotten                // others do not wait as long
)

// add is told of a request that begins, the newest of the roll.
func (u *unheard) add(s *seat) {
	s.silence = silent
	if u.next == nil {
		u.next = s
	}
}

// remove is told that a request has given output, or ends and is still in the roll.
func (u *unheard) remove(s *seat) {
	if s.silence == forgotten {
		u.forgotten--
	}
	s.silence = notSilent
	u.pass()
}

// forget is told that those who began before a time are forgotten.
func (u *unheard) forget(before time.Duration) {
	for u.next != nil && u.next.began < before {
		u.next.silence = forgotten
		u.forgotten++
		u.pass()
	}
}

func (u *unheard) pass() {
	for u.next != nil && u.next.silence != silent {
		u.next = u.next.newer
	}
}
