package fakeserver

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// A Script decides on the reply to a request. It may be called by several
// goroutines at a time; what it is given is its own.
type Script func(*Request) Step

// Always gives every request the same reply.
func Always(steps ...Step) Script {
	reply := Reply(steps...)
	return func(*Request) Step { return reply }
}

// Sequence gives the nth request the nth reply, and the last one to all that
// follow. Without replies all are answered with an empty 200.
func Sequence(replies ...Step) Script {
	return func(r *Request) Step {
		if len(replies) == 0 {
			return Reply()
		}
		return replies[min(max(r.Ordinal, 1), len(replies))-1]
	}
}

// A Step is one thing the server does in a reply, or several in a row. Steps
// are values without state: they can stand in tables, be shared and printed.
// The zero value does nothing.
type Step struct {
	name string
	run  func(*turn) error
}

// String tells the step in short, such as text("hello").
func (s Step) String() string { return s.name }

func (s Step) play(t *turn) error {
	if s.run == nil {
		return nil
	}
	return s.run(t)
}

// How a reply can end before its last step.
var (
	errOver        = errors.New("the reply is over")
	errGone        = errors.New("the client is gone, or the server closes")
	errBroken      = errors.New("the connection has to be broken off")
	errInterrupted = errors.New("the interruption is due")
)

// Reply strings steps together. A reply that ends without more ado ends its
// body in the ordinary way; to a client that did not ask for a stream, what
// its steps said is sent as one JSON answer.
func Reply(steps ...Step) Step {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.name
	}
	return Step{strings.Join(names, " "), func(t *turn) error {
		for _, s := range steps {
			if err := s.play(t); err != nil {
				return err
			}
		}
		return nil
	}}
}

// shortest is the least time between two things that are done for ever. There
// must be one: in a synctest bubble a loop that never waits stops the clock.
const shortest = 100 * time.Microsecond

// Repeat plays steps n times, the first time at once, and waits in between. A
// negative n repeats until the client goes away, ten thousand times a second
// at most.
func Repeat(n int, every time.Duration, steps ...Step) Step {
	body := Reply(steps...)
	times := strconv.Itoa(n)
	if n < 0 {
		times = "for-ever"
		every = max(every, shortest)
	}
	return Step{"repeat(" + times + " " + every.String() + " " + body.name + ")", func(t *turn) error {
		for i := 0; n < 0 || i < n; i++ {
			if i > 0 {
				if err := t.sleep(every); err != nil {
					return err
				}
			}
			if err := body.play(t); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Interrupt plays a reply until n pieces of output have been sent, or until
// just before its finish if it has fewer, and then goes on with other steps.
func Interrupt(reply Step, n int, with ...Step) Step {
	then := Reply(with...)
	return Step{"interrupt(" + strconv.Itoa(n) + " " + then.name + ")", func(t *turn) error {
		before := t.limit
		t.limit = t.outputs + max(n, 0)
		err := reply.play(t)
		t.limit = before
		if err != nil && !errors.Is(err, errInterrupted) {
			return err
		}
		return then.play(t)
	}}
}

// Slowly plays a reply with a pause before each piece of output.
func Slowly(pause time.Duration, reply Step) Step {
	return Step{"slowly(" + pause.String() + " " + reply.name + ")", func(t *turn) error {
		before := t.pause
		t.pause = pause
		defer func() { t.pause = before }()
		return reply.play(t)
	}}
}

// short quotes text for a step's name.
func short(text string) string {
	const most = 32
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strconv.Quote(text)
}
