package health

import (
	"fmt"
	"net/http"
	"time"

	"github.com/neverhang/neverhang/llmclient"
)

// Config sets up a [Monitor]. Everything but Targets may be left zero.
type Config struct {
	// Targets are the servers of one service: what calls go to, and what stands
	// behind it. What a router names is added by itself, as far as it can be
	// reached. Different services want a Monitor each.
	Targets []Target

	// Endpoint is the name of the client's endpoint that the service is. Empty
	// means all.
	Endpoint string

	// HTTPClient asks the questions. Nil means one of the Monitor's own, whose
	// every question comes on a fresh connection.
	HTTPClient *http.Client

	// Interval is the time between two samples while calls are in flight. Zero
	// means 10 s; at least 1 s and at most 20 s, since older samples are not
	// believed.
	Interval time.Duration

	// Timeout bounds all questions to a target in one sample together. Zero means
	// 4 s; at most 5 s, which is what a client grants its Adviser.
	Timeout time.Duration

	// PerMinute is how many questions may be asked in a minute, of all targets
	// together; those that find out what a server is come once, and apart. Zero
	// means 200, negative any number.
	PerMinute int

	// Samples is how many are kept of each target, all recent ones and ever fewer
	// of the older ones. Zero means 90; at least 10.
	Samples int

	// Allow, if not nil, is asked before each question and may refuse it: for a
	// budget that is shared with others. That of the watched clients' retries
	// is shared in any case.
	Allow func() bool

	// Local, if not nil, tells what the callers do beside calling, such as which
	// tools run. It must be quick.
	Local func() []Activity

	// OnVerdict, if not nil, hears of each verdict of another state than the one
	// before. It runs with no lock held, one at a time. No sample is taken
	// meanwhile.
	OnVerdict func(Verdict)
}

// A Client is what a Monitor watches, as [llmclient.Client] and
// [llmclient.Transport] are. One that has Endpoints as well, or Clients that
// do, shows how its breakers and pacers stand, is told of signs of life and of
// their absence, and its budget for retries pays for the questions.
type Client interface {
	InFlight() []llmclient.InFlight
}

// An endpoints is a client that shows them.
type endpoints interface {
	Endpoints() []llmclient.EndpointStatus
	Alive(endpoint string)
}

// A lender is one whose budget for retries pays for probes as well.
type lender interface {
	AllowProbe(endpoint string) bool
}

// An ailer is one whose breaker may be told to stay open for longer.
type ailer interface {
	Ailing(endpoint string)
}

// clientsOf returns the clients behind one that show their endpoints.
func clientsOf(c Client) []endpoints {
	if e, ok := c.(endpoints); ok {
		return []endpoints{e}
	}
	var list []endpoints
	if many, ok := c.(interface{ Clients() []*llmclient.Client }); ok {
		for _, one := range many.Clients() {
			list = append(list, one)
		}
	}
	return list
}

// fill puts in the defaults, and says which field is bad, if one is.
func (c *Config) fill() (bad string) {
	if len(c.Targets) == 0 {
		return "Targets is empty, want at least one server"
	}
	if c.Interval == 0 {
		c.Interval = 10 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 4 * time.Second
	}
	if c.PerMinute == 0 {
		c.PerMinute = 200
	}
	if c.Samples == 0 {
		c.Samples = 90
	}
	switch {
	case c.Interval < time.Second || c.Interval > 20*time.Second:
		return fmt.Sprintf("Interval is %v, want 1s to 20s", c.Interval)
	case c.Timeout < 0 || c.Timeout > 5*time.Second:
		return fmt.Sprintf("Timeout is %v, want more than 0 and at most 5s", c.Timeout)
	case c.Samples < 10:
		return fmt.Sprintf("Samples is %d, want at least 10", c.Samples)
	}
	return ""
}
