package health

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Config sets up a [Monitor]. Everything but Targets may be left zero.
type Config struct {
	// Targets are the servers of one service: the one that calls go to, and those
	// behind it. Workers that a router names are added, if they can be reached.
	// Each service needs a Monitor of its own.
	Targets []Target

	// Endpoint is the client's name of the endpoint that leads to the service.
	// Empty means that all of its endpoints do.
	Endpoint string

	// HTTPClient asks the questions. Nil means one of the Monitor's own: it opens
	// a new connection for each question, and honours HTTP_PROXY, HTTPS_PROXY and
	// NO_PROXY as [http.ProxyFromEnvironment] does.
	HTTPClient *http.Client

	// Interval is the time between two samples while calls are in flight: 1 s to
	// 20 s, since a sample counts for 30 s. Zero means 10 s.
	Interval time.Duration

	// Timeout bounds all questions to a target in one sample together. Zero means
	// 4 s; the most is 5 s, as long as a client waits for its Adviser.
	Timeout time.Duration

	// PerMinute bounds the questions of a minute to all targets together. Zero
	// means 200, negative no bound. Detecting what a server is does not count.
	PerMinute int

	// Samples is how many samples of each target are kept: all recent ones, and
	// every second one, then every fourth one and so on of the older ones. Zero
	// means 90; the least is 10.
	Samples int

	// Allow, if not nil, is asked before each question and may refuse it, for
	// example by a budget that is shared with others. The retry budgets of the
	// watched clients pay for each question in any case.
	Allow func() bool

	// Local, if not nil, returns what the callers are doing besides calling, such
	// as the tools that run. It must be quick.
	Local func() []Activity

	// OnVerdict, if not nil, gets each verdict whose state differs from the one
	// before. Calls come one at a time, with no lock held. The next samples are
	// taken after it returns.
	OnVerdict func(Verdict)

	// Logger, if not nil, gets the panics of Local, Allow, OnVerdict and the
	// watched clients, with their stacks. The Monitor goes on after them.
	Logger *slog.Logger
}

// fill puts in the defaults, and says which field is bad, if one is.
func (c *Config) fill() (bad string) {
	if len(c.Targets) == 0 {
		return "Targets is empty, want at least one server"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
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
