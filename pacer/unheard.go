package pacer

import (
	"slices"
	"time"
)

const (
	longBefore  = 8                      // usual waits for the first output by which one that is served began later
	leastBefore = 250 * time.Millisecond // and this at least
)

// unheard are the requests under way that have given no output yet, in the order
// in which they began. One that had been waiting for long when another began that
// is served nevertheless got lost on its way or is forgotten by the server: it
// takes no place there, however long we go on waiting for it.
type unheard struct {
	line      []unheardOf // of the requests after gone
	head      int         // how many of these, from the first on, do not wait any more
	gone      int64
	forgotten []int64 // numbers, in order
}

type unheardOf struct {
	began   time.Duration
	waiting bool
}

// add is told of a request that begins. Numbers follow one another.
func (u *unheard) add(number int64, began time.Duration) {
	if len(u.line) == 0 {
		u.gone = number - 1
	}
	u.line = append(u.line, unheardOf{began: began, waiting: true})
}

// remove is told that a request has given output, or ended.
func (u *unheard) remove(number int64) {
	if i := number - u.gone - 1; i >= int64(u.head) && i < int64(len(u.line)) {
		u.line[i].waiting = false
		u.trim()
		return
	}
	if i, ok := slices.BinarySearch(u.forgotten, number); ok {
		u.forgotten = slices.Delete(u.forgotten, i, i+1)
	}
}

// forget is told that those who began before a time are forgotten.
func (u *unheard) forget(before time.Duration) {
	for u.head < len(u.line) && u.line[u.head].began < before {
		u.forgotten = append(u.forgotten, u.gone+int64(u.head)+1)
		u.line[u.head].waiting = false
		u.trim()
	}
}

// trim drops those from the first on that do not wait, from time to time.
func (u *unheard) trim() {
	for u.head < len(u.line) && !u.line[u.head].waiting {
		u.head++
	}
	if 2*u.head >= len(u.line) {
		u.gone += int64(u.head)
		u.line = u.line[:copy(u.line, u.line[u.head:])]
		u.head = 0
	}
}
