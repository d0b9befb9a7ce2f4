package llmclient

import (
	"fmt"
	"time"
)

const (
	// silentStreams is how many streams in a row must have brought no output, with
	// none that ever did, until a plain answer is tried.
	silentStreams = 2

	// Where a plain answer helped, a stream is tried again after streamAfter, and
	// then after twice as long each time, up to streamSeldom: the endpoint may only
	// have been starting up.
	streamAfter  = time.Minute
	streamSeldom = 24 * time.Hour

	// Such a stream may take streamTimes as long as a plain answer until its first
	// output, and at least streamLeast.
	streamTimes = 4
	streamLeast = 30 * time.Second
)

// streams is what is known of an endpoint's streams. A server or proxy that buffers
// a stream to its end looks dead to a reader. It is guarded by the endpoint's lock.
type streams struct {
	silent int           // in a row that gave no first output; -1 once one has given any
	plain  bool          // a plain answer came where they were silent
	took   time.Duration // the longest of those
	next   time.Time     // when a stream is tried again
	every  time.Duration
}

// A doubt is a reason to ask in another way than usual.
type doubt struct {
	plainly bool          // streams have brought nothing
	within  time.Duration // if not 0, a stream is tried again, and has this long for its first output
}

// doubt returns the doubt about the next request.
func (s *streams) doubt(now time.Time) doubt {
	switch {
	case s.silent < silentStreams:
		return doubt{}
	case !s.plain || now.Before(s.next):
		return doubt{plainly: true}
	}
	s.later(now) // one call tries
	return doubt{within: max(streamLeast, streamTimes*s.took)}
}

func (s *streams) later(now time.Time) {
	s.every = min(max(2*s.every, streamAfter), streamSeldom)
	s.next = now.Add(s.every)
}

// replaced is told that a plain answer came where streams had been silent.
func (s *streams) replaced(now time.Time, took time.Duration) {
	if s.silent < silentStreams {
		return // meanwhile one was not
	}
	if s.took = max(s.took, took); !s.plain {
		s.plain = true
		s.later(now)
	}
}

// broughtNothing is told that an answer ended, or was given up, without any
// output.
func (s *streams) broughtNothing(plain bool) {
	switch {
	case s.silent < 0:
	case plain && !s.plain:
		s.silent = 0 // it is not the streaming
	case !plain:
		s.silent++
	}
}

// speaks returns the dialect in which to ask, and what doubt there is.
func (e *endpoint) speaks(now time.Time) (dialect, doubt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.dialect
	if d.plain {
		return d, doubt{} // it said so
	}
	is := e.streams.doubt(now)
	d.plain = is.plainly
	return d, is
}

// streamed is told that a stream gave output.
func (e *endpoint) streamed() {
	if !e.flows.Swap(true) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.streams = streams{silent: -1}
	}
}

// doubtStreams counts an answer that brought nothing, and asks for a plain one
// if it may be the streaming. If that brings nothing either, it is not.
func (cl *call) doubtStreams(e *Error) {
	if !cl.broughtNothing(e) {
		return
	}
	ep, route := cl.at.ep, cl.at
	ep.mu.Lock()
	ep.streams.broughtNothing(route.speaks.plain)
	silent := ep.streams.silent >= silentStreams
	ep.mu.Unlock()
	switch {
	case route.doubt.plainly && !silent:
		route.speaks.plain, route.doubt = false, doubt{}
	case !route.speaks.plain && silent:
		cl.plainly()
	default:
		return
	}
	_ = cl.encode() // it could be before
}

// plainly makes the call ask for a whole answer from here on.
func (cl *call) plainly() {
	cl.at.speaks.plain, cl.at.doubt = true, doubt{plainly: true}
	if cl.at.ep.firstHeard(cl.at.speaks) {
		ev := cl.event(EventAdapted)
		ev.Text = fmt.Sprintf("%d streams in a row gave no output: a plain answer is asked for", silentStreams)
		cl.client.notify(ev)
	}
}

// broughtNothing reports whether an attempt ended without any output, for no
// other reason.
func (cl *call) broughtNothing(e *Error) bool {
	return cl.passed == nil && e.Partial == nil && e.Evidence == "" &&
		(e.Kind == ErrEmpty || e.Clock == ClockFirstOutput || e.Clock == ClockAttempt)
}

// tried rules on an attempt that was to find out whether streams bring output by
// now: if it brought nothing, the call goes on with a plain answer at once, and
// nothing is held against the endpoint.
func (a *attempt) tried(e *Error, r *ruling) {
	if a.at.doubt.within == 0 || !a.call.broughtNothing(e) {
		return
	}
	a.call.plainly()
	*r = ruling{kind: r.kind, adapted: true}
}
