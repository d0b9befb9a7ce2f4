package conformance_test

import (
	"strings"
	"time"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
)

// A due is what a caller is owed.
type due uint8

const (
	answered due = iota // the whole answer: the server is healthy
	mended              // the whole answer: the server failed before its first output, and would answer if asked again
	told                // the whole answer or an error: the server failed when a part of the answer was out
	denied              // an error: the server never answers
)

// A fault is a row of the table: what the server does.
type fault struct {
	name string
	due  due

	// replies are those to the first request, the second, and so on; the last
	// one repeats. Nil means that the fault does not exist in this form.
	replies func(s speech) []fake.Step

	// net is trouble below HTTP.
	net []fake.NetFault

	// large makes the answer one event of 1 MiB.
	large bool

	// below says that the fault is one of HTTP, which can be told without
	// understanding the answer.
	below bool
}

const sentence = "The quick brown fox jumps over the dog"

// text is what the model has to say.
func (f fault) text() string {
	if f.large {
		return strings.Repeat("x", 1<<20)
	}
	return sentence
}

// once is a fault that meets the first request only.
func once(fault func(s speech) fake.Step) func(speech) []fake.Step {
	return func(s speech) []fake.Step { return []fake.Step{fault(s), s.whole()} }
}

// always is a fault that meets every request.
func always(fault func(s speech) fake.Step) func(speech) []fake.Step {
	return func(s speech) []fake.Step { return []fake.Step{fault(s)} }
}

// fixed is a reply that is the same in all forms.
func fixed(step ...fake.Step) func(speech) fake.Step {
	return func(speech) fake.Step { return fake.Reply(step...) }
}

// then is the first half of the answer, and after it what is given.
func then(step ...fake.Step) func(speech) fake.Step {
	return func(s speech) fake.Step { return s.broken(step...) }
}

// inside is an error in a 200, in place of the answer.
func inside(s speech) fake.Step {
	if !s.streamed {
		return fake.JSON(s.errorBody)
	}
	return s.trouble
}

// pinging waits and pings, in a stream.
func pinging(n int, every time.Duration) func(s speech) fake.Step {
	return func(s speech) fake.Step {
		if !s.streamed {
			return fake.Reply(fake.Headers(), fake.Repeat(n, every))
		}
		return fake.Repeat(n, every, s.ping)
	}
}

// faults are the rows of the table.
var faults = []fault{
	{name: "healthy", replies: always(speech.whole)},
	{name: "a word a minute", replies: always(func(s speech) fake.Step {
		if !s.streamed {
			return fake.Reply(fake.Pause(8*time.Minute), s.whole())
		}
		steps := []fake.Step{s.begin}
		for _, piece := range append(s.half, s.rest...) {
			steps = append(steps, fake.Pause(time.Minute), piece)
		}
		return fake.Reply(append(steps, s.end)...)
	})},
	{name: "six minutes of prefill", replies: always(func(s speech) fake.Step {
		return fake.Reply(fake.Pause(6*time.Minute), s.whole())
	})},
	{name: "five silent minutes, then all at once", replies: always(func(s speech) fake.Step {
		return fake.Reply(fake.Headers(), fake.Pause(5*time.Minute), s.whole())
	})},
	{name: "five minutes of pings, then the answer", replies: always(func(s speech) fake.Step {
		return fake.Reply(pinging(20, 15*time.Second)(s), s.whole())
	})},
	{name: "five minutes of a ping a second, then the answer", replies: always(func(s speech) fake.Step {
		return fake.Reply(pinging(300, time.Second)(s), s.whole())
	})},
	{name: "one event of 1 MiB", replies: always(speech.whole), large: true},

	{name: "a refused connection", due: mended, below: true, replies: always(speech.whole),
		net: []fake.NetFault{{Kind: fake.Refused, Last: 1}}},
	{name: "a dial that hangs", due: mended, below: true, replies: always(speech.whole),
		net: []fake.NetFault{{Kind: fake.HangDial, Last: 1}}},
	{name: "a peer that never reads", due: mended, below: true, replies: always(speech.whole),
		net: []fake.NetFault{{Kind: fake.NeverRead, Last: 1}}},
	{name: "no head", due: mended, below: true, replies: once(fixed(fake.Hang()))},
	{name: "a head, then silence", due: mended, below: true, replies: once(fixed(fake.Headers(), fake.Hang()))},
	{name: "pings for ever", due: mended, below: true, replies: once(pinging(-1, 15*time.Second))},
	{name: "a reset", due: mended, below: true, replies: once(fixed(fake.Reset()))},
	{name: "429 with Retry-After", due: mended, below: true, replies: once(fixed(fake.RetryAfter(2*time.Second), fake.Throttled()))},
	{name: "503 twice", due: mended, below: true, replies: func(s speech) []fake.Step {
		return []fake.Step{fake.Unavailable(), fake.Unavailable(), s.whole()}
	}},
	{name: "an empty 200", due: mended, replies: once(fixed(fake.Headers(), fake.Cut()))},
	{name: "a web page in a 200", due: mended, replies: once(fixed(fake.HTML()))},
	{name: "an error in a 200", due: mended, replies: once(inside)},

	{name: "half, then silence", due: told, replies: once(then(fake.Hang()))},
	{name: "half, then pings for ever", due: told, replies: once(func(s speech) fake.Step {
		return s.broken(pinging(-1, 15*time.Second)(s))
	})},
	{name: "half, then a reset", due: told, replies: once(then(fake.Reset()))},
	{name: "half, then a clean end", due: told, replies: once(then(fake.Cut()))},
	{name: "half, then an abort", due: told, replies: func(s speech) []fake.Step {
		switch {
		case s.abortBody == "":
			return nil
		case !s.streamed:
			return []fake.Step{fake.JSON(s.abortBody), s.whole()}
		}
		return []fake.Step{s.broken(s.abort), s.whole()}
	}},
	{name: "half, then an error in the 200", due: told, replies: once(func(s speech) fake.Step {
		if !s.streamed {
			return fake.JSON(s.errorBody)
		}
		return s.broken(s.trouble)
	})},
	{name: "a piece that is malformed", due: told, replies: once(func(s speech) fake.Step {
		if !s.streamed {
			return fake.JSON(`{"choices":[{"index":0,"message":{"role":"assistant","content":oops}}],"content":[oops]}`)
		}
		return s.broken(s.malformed, fake.Reply(s.rest[1:]...), s.end)
	})},
	{name: "a piece that is cut short", due: told, replies: once(func(s speech) fake.Step {
		if !s.streamed {
			return fake.Short(s.body[:len(s.body)/2])
		}
		return s.broken(s.torn, fake.Cut())
	})},

	{name: "no head, every time", due: denied, replies: always(fixed(fake.Hang()))},
	{name: "503, every time", due: denied, replies: always(fixed(fake.Unavailable()))},
	{name: "an empty 200, every time", due: denied, replies: always(fixed(fake.Headers(), fake.Cut()))},
	{name: "an error in a 200, every time", due: denied, replies: always(inside)},
	{name: "a tool call cut by the token limit", due: denied, replies: func(s speech) []fake.Step {
		switch {
		case s.lengthBody == "":
			return nil
		case !s.streamed:
			return []fake.Step{fake.JSON(s.lengthBody)}
		}
		return []fake.Step{s.broken(s.length)}
	}},
	{name: "half, then silence, every time", due: denied, replies: always(then(fake.Hang()))},
	{name: "half, then a clean end, every time", due: denied, replies: always(then(fake.Cut()))},
}
