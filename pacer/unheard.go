package pacer

import "time"

const (
	longBefore  = 8                      // a forgotten request began so many usual waits before one that is served
	leastBefore = 250 * time.Millisecond // and at least this long before it
)

// unheard are the requests in flight without output. If one had waited for long when
// another began, and the other is served first, the server has lost or forgotten it:
// it takes no place there, however long we go on waiting for it.
type unheard struct {
	next      *seat // of the roll: the oldest silent one; those before it are not, or are forgotten
	forgotten int
}

// A silence is the state of a request as to its first output.
type silence int

const (
	notSilent silence = iota // it has given output, or has ended
	silent                   // it has no output yet
	forgotten                // it has none, and later ones have
)

// add notes a request that begins, the newest of the roll.
func (u *unheard) add(s *seat) {
	s.silence = silent
	if u.next == nil {
		u.next = s
	}
}

// remove notes that a request has given output, or ends while it is in the roll.
func (u *unheard) remove(s *seat) {
	if s.silence == forgotten {
		u.forgotten--
	}
	s.silence = notSilent
	u.pass()
}

// forget marks the silent requests that began before a time as forgotten.
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
