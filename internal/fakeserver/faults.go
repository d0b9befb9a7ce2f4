package fakeserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Faults say what happens to requests at random, and when the whole server is
// down. The zero value means nothing. Values are not changed once made.
//
// Which fault meets a request follows from the seed, the agent and the number
// of the agent's request alone, so neither timing nor the order of arrival
// changes it. Outages follow from the time since the server's start.
type Faults struct {
	rates   rates[*fault]
	outages []outage
}

// An outage refuses connections and answers 503 on open ones.
type outage struct{ at, lasts time.Duration }

// A fault is one kind of misbehaviour, played on top of a healthy reply.
type fault struct {
	name string
	slow bool // the reply is healthy, only slow
	play func(healthy Step, luck *rand.Rand) Step
}

func (f *fault) label() string { return f.name }

// The paces of the faults. Short, so that clients with short clocks can tell
// a slow reply from none.
const (
	faultPing = 200 * time.Millisecond // between pings
	faultSlow = 25 * time.Millisecond  // before each piece of a slow reply
	faultLate = 500 * time.Millisecond // before a reply that comes all at once
	faultTick = time.Millisecond       // between pieces of endless output
)

// faultKinds returns every kind, in the order in which they are told.
func faultKinds() []*fault {
	// after breaks off a reply at some point in its first pieces, or before
	// all of them.
	after := func(with ...Step) func(Step, *rand.Rand) Step {
		return func(healthy Step, luck *rand.Rand) Step {
			return Interrupt(healthy, luck.IntN(5), with...)
		}
	}
	status := func(status int, kind, message string) func(Step, *rand.Rand) Step {
		return func(Step, *rand.Rand) Step { return Error(status, kind, "", message) }
	}
	inPlace := func(steps ...Step) func(Step, *rand.Rand) Step {
		return func(Step, *rand.Rand) Step { return Reply(steps...) }
	}
	return []*fault{
		{name: "hang", play: inPlace(Hang())},
		{name: "headers", play: inPlace(Headers(), Hang())},
		{name: "stall", play: func(healthy Step, luck *rand.Rand) Step {
			return Interrupt(healthy, 1+luck.IntN(4), Hang())
		}},
		{name: "pings", play: func(healthy Step, luck *rand.Rand) Step {
			forms := PingForms()
			return Interrupt(healthy, luck.IntN(3), Headers(),
				Repeat(-1, faultPing, forms[luck.IntN(len(forms))]))
		}},
		{name: "reset", play: func(healthy Step, luck *rand.Rand) Step {
			if luck.IntN(3) == 0 {
				return Reset() // before the headers
			}
			return Interrupt(healthy, luck.IntN(5), Reset())
		}},
		{name: "cut", play: func(healthy Step, luck *rand.Rand) Step {
			return Interrupt(healthy, 1+luck.IntN(4), Cut())
		}},
		{name: "abrupt", play: after(Abrupt())},
		{name: "short", play: inPlace(Short("data: {\"choices\":[]}\n\n"))},
		{name: "error", play: func(healthy Step, luck *rand.Rand) Step {
			forms := ErrorForms()
			form := forms[luck.IntN(len(forms))]
			n := luck.IntN(4)
			if form == ErrorLine {
				n = 0 // a parser does not see it: after text nothing would tell it from an end
			}
			return Interrupt(healthy, n, ErrorInside(form, http.StatusServiceUnavailable, "the engine gave up"))
		}},
		{name: "abort", play: func(healthy Step, luck *rand.Rand) Step {
			return Interrupt(healthy, 1+luck.IntN(4), Finish("abort"), Done())
		}},
		{name: "malformed", play: after(Malformed())},
		{name: "empty", play: func(_ Step, luck *rand.Rand) Step {
			if luck.IntN(2) == 0 {
				return Reply(Headers(), Done())
			}
			return Headers()
		}},
		{name: "html", play: inPlace(HTML())},
		{name: "endless", play: func(healthy Step, _ *rand.Rand) Step {
			return Interrupt(healthy, 1, Stuck(faultTick, "and so on "))
		}},
		{name: "429", play: func(_ Step, luck *rand.Rand) Step {
			hints := []Step{
				RetryAfter(200 * time.Millisecond),
				RetryAfter(time.Second),
				RetryAfterMs(150 * time.Millisecond),
				RetryAfterDate(time.Second),
				RetryAfter(-time.Second),
				RetryAfterDate(-time.Hour),
				{},
			}
			return Reply(hints[luck.IntN(len(hints))], Throttled())
		}},
		{name: "500", play: status(http.StatusInternalServerError, "server_error", "Internal server error")},
		{name: "502", play: inPlace(Status(http.StatusBadGateway, "<html><h1>502 Bad Gateway</h1></html>"))},
		{name: "503", play: inPlace(Unavailable())},
		{name: "504", play: inPlace(Status(http.StatusGatewayTimeout, "upstream request timeout"))},
		{name: "529", play: status(529, "overloaded_error", "Overloaded")},
		{name: "slow", slow: true, play: func(healthy Step, _ *rand.Rand) Step {
			return Slowly(faultSlow, healthy)
		}},
		{name: "late", slow: true, play: func(healthy Step, _ *rand.Rand) Step {
			return Reply(Headers(), Pause(faultLate), healthy)
		}},
	}
}

// DefaultFaults hit more than a third of all requests, in every way there is,
// and take the server down for a while besides.
func DefaultFaults() Faults {
	f, _ := ParseFaults(defaultFaults)
	return f
}

const defaultFaults = "hang=0.04,headers=0.03,stall=0.05,pings=0.03,reset=0.04,cut=0.03,abrupt=0.02,short=0.01," +
	"error=0.03,abort=0.02,malformed=0.01,empty=0.01,html=0.01,endless=0.01,429=0.05,500=0.01,502=0.01,503=0.02," +
	"504=0.01,529=0.01,slow=0.05,late=0.03,outage=2s@3s"

// FaultNames returns the names that [ParseFaults] knows, outage apart.
func FaultNames() []string { return labels(faultKinds()) }

// ParseFaults reads faults from a list of name=rate, the rates being shares
// of all requests that add up to at most 1, and of outage=D@T: down for D,
// beginning T after the start. Empty and "none" mean none, "default" means
// [DefaultFaults].
func ParseFaults(spec string) (Faults, error) {
	if strings.TrimSpace(spec) == "default" {
		spec = defaultFaults
	}
	var f Faults
	var err error
	f.rates, err = parseRates("faults", spec, faultKinds(), ", and outage=5s@3s", func(name, value string) (bool, error) {
		if name != "outage" {
			return false, nil
		}
		o, err := parseOutage(value)
		f.outages = append(f.outages, o)
		return true, err
	})
	if err != nil {
		return Faults{}, err
	}
	return f, nil
}

func parseOutage(value string) (outage, error) {
	lasts, at, found := strings.Cut(value, "@")
	if !found {
		at = "0s"
	}
	var o outage
	var err1, err2 error
	o.lasts, err1 = time.ParseDuration(lasts)
	o.at, err2 = time.ParseDuration(at)
	if err := errors.Join(err1, err2); err != nil || o.lasts <= 0 || o.at < 0 {
		return outage{}, fmt.Errorf("%q is no outage, want one like 5s@3s: down for 5s, 3s after the start", value)
	}
	return o, nil
}

// String returns the faults as [ParseFaults] reads them.
func (f Faults) String() string {
	out := f.rates.entries()
	for _, o := range f.outages {
		out = append(out, fmt.Sprintf("outage=%v@%v", o.lasts, o.at))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ",")
}

// Share returns which part of all requests meets a fault. Replies that are
// only slow do not count, nor do outages.
func (f Faults) Share() float64 {
	sum := 0.0
	for i, share := range f.rates.share {
		if !f.rates.kinds[i].slow {
			sum += share
		}
	}
	return sum
}

// Draw returns the name of the fault that meets the nth request of an agent,
// or "" if none does.
func (f Faults) Draw(seed uint64, agent string, n int) string {
	if k, _ := f.draw(seed, agent, n); k != nil {
		return k.name
	}
	return ""
}

func (f Faults) draw(seed uint64, agent string, n int) (*fault, *rand.Rand) {
	luck := luckOf(seed, agent, n)
	k, ok := f.rates.pick(luck)
	if !ok {
		return nil, nil
	}
	return k, luck
}

// down reports whether the server is down at an age.
func (f Faults) down(age time.Duration) bool {
	return slices.ContainsFunc(f.outages, func(o outage) bool { return age >= o.at && age < o.at+o.lasts })
}
