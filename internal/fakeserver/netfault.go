package fakeserver

import (
	"fmt"
	"strings"
	"time"
)

// A NetKind is a kind of trouble below HTTP.
type NetKind string

// The kinds of trouble on the network. Over a loopback listener the kernel
// has accepted a connection before the server can refuse it: there Refused
// resets it at once and HangDial leaves it unread.
const (
	// Refused answers a dial with "connection refused".
	Refused NetKind = "refused"
	// HangDial lets a dial wait until its context ends.
	HangDial NetKind = "hang-dial"
	// NeverRead accepts the connection and never reads a byte. In memory
	// nothing that the client writes fits, so its very first write waits; a
	// kernel takes some megabytes first.
	NeverRead NetKind = "never-read"
	// BlackHole loses an open connection without a word once it has been
	// idle for After: what the client writes is taken, nothing comes back.
	BlackHole NetKind = "black-hole"
	// IdleClose closes a connection once it has been idle for After.
	IdleClose NetKind = "idle-close"
)

// A NetFault is trouble on the network: of one kind, for some connections,
// for some time. The zero value of each bound means no bound.
type NetFault struct {
	Kind NetKind

	// First and Last are the connections it hits, counted from 1 in the order
	// in which they were dialled, refused ones included.
	First, Last int

	// From and Until bound the time of the dial, counted from the server's
	// start. Until itself is outside.
	From, Until time.Duration

	// After is how long a connection must be idle for BlackHole and
	// IdleClose. Idle means that an answer has been given in full and the
	// next request has not begun.
	After time.Duration
}

// hits reports whether the fault concerns a connection.
func (f NetFault) hits(ordinal int, age time.Duration) bool {
	return ordinal >= f.First && (f.Last <= 0 || ordinal <= f.Last) &&
		age >= f.From && (f.Until <= 0 || age < f.Until)
}

// String tells the fault on one line.
func (f NetFault) String() string {
	var b strings.Builder
	b.WriteString(string(f.Kind))
	if f.First > 0 || f.Last > 0 {
		fmt.Fprintf(&b, " #%d", max(f.First, 1))
		if f.Last > f.First {
			fmt.Fprintf(&b, "-%d", f.Last)
		} else if f.Last <= 0 {
			b.WriteString("-")
		}
	}
	if f.From > 0 {
		fmt.Fprintf(&b, " from %v", f.From)
	}
	if f.Until > 0 {
		fmt.Fprintf(&b, " until %v", f.Until)
	}
	if f.After > 0 {
		fmt.Fprintf(&b, " after %v idle", f.After)
	}
	return b.String()
}
