package agentloop

import (
	"fmt"
	"time"
)

// A RestartPolicy says how often an agent that ended is started again, as supervisors
// count: at most Max times within any Per. Then it stays as it ended.
type RestartPolicy struct {
	// Max is how many restarts there may be. Zero means none.
	Max int

	// Per is the period in which restarts are counted. Zero means the whole run.
	Per time.Duration

	// Fresh starts the agent over from its first message, with no step taken. Otherwise
	// it goes on from its last completed round, and its steps count. In either case,
	// effects of its tools remain, and budgets go on.
	Fresh bool
}

func (p RestartPolicy) check(of Outcome) error {
	switch {
	case of != Failed && of != Stalled:
		return fmt.Errorf("agentloop: Restart has a policy for the outcome %q, want %q or %q", of, Failed, Stalled)
	case p.Max < 0:
		return fmt.Errorf("agentloop: Restart[%q].Max is %d, want 0 or more", of, p.Max)
	case p.Per < 0:
		return fmt.Errorf("agentloop: Restart[%q].Per is %v, want 0 (the whole run) or more", of, p.Per)
	}
	return nil
}

// timesWithin counts events within a period.
type timesWithin struct{ at []time.Time }

// admits notes one more event, unless there were already most within per.
func (w *timesWithin) admits(now time.Time, most int, per time.Duration) bool {
	if per > 0 {
		old := 0
		for old < len(w.at) && now.Sub(w.at[old]) >= per {
			old++
		}
		w.at = w.at[old:]
	}
	if len(w.at) >= most {
		return false
	}
	w.at = append(w.at, now)
	return true
}

// A StallAction is what the watchdog does about an agent without a sign of life,
// after it has announced the stall.
type StallAction int

const (
	// StallReport does nothing more.
	StallReport StallAction = iota
	// StallRetry ends the silent call, and no call beside it. A model call then counts
	// as a passing fault; a tool call gets an error result.
	StallRetry
	// StallEnd ends the agent as Stalled.
	StallEnd
)

// A StallError is the end of a call, or of an agent, that showed no sign of life.
type StallError struct {
	Silent time.Duration // without a sign of life
	State  string        // what the agent did, and did before

	// Explanation is what GroupConfig.Explain said about it.
	Explanation string
}

func (e *StallError) Error() string {
	return explained(fmt.Sprintf("no sign of life for %v: %s", brief(e.Silent), e.State), e.Explanation)
}

// Timeout reports true.
func (e *StallError) Timeout() bool { return true }

// A SystemicAction is what a group does when one endpoint fails most of its agents.
type SystemicAction int

const (
	// SystemicHold holds back all further model calls except one at a time, the probe,
	// until there is an answer. A probe without a sign of life for 30 seconds goes on,
	// but the next one may start; each further probe gets twice as long. Meanwhile
	// faults do not count as Restarts. If no answer comes within SystemicConfig.Limit
	// the group stops.
	SystemicHold SystemicAction = iota
	// SystemicGoOn leaves each agent to its own restarts.
	SystemicGoOn
	// SystemicStop ends the group at once.
	SystemicStop
)

// A SystemicConfig says when trouble is systemic, which means that one endpoint fails
// most agents, and what is done then. The zero value is the default.
type SystemicConfig struct {
	// Share is the part of the agents at work that must be in trouble, all since the
	// endpoint's last answer to any of them. An agent is in trouble if its call failed
	// with a passing fault, or if it waits for the model and shows no sign of life
	// (GroupConfig.StallAfter). Agents that wait for a place (GroupConfig.MaxInFlight)
	// do not count, unless silent calls hold all places: then they are in trouble as
	// well. Zero means more than a half; a negative value never.
	Share float64

	// Min is how many agents must be in trouble at least. Zero means 3.
	Min int

	Action SystemicAction

	// Limit bounds how long calls are held back. Zero means 10 minutes, a negative value
	// no bound but the group's Timeout.
	Limit time.Duration
}

const (
	defaultSystemicShare = 0.5
	defaultSystemicMin   = 3
	defaultSystemicLimit = 10 * time.Minute
)

func (c SystemicConfig) filled() SystemicConfig {
	if c.Share == 0 {
		c.Share = defaultSystemicShare
	}
	fill(&c.Min, defaultSystemicMin)
	fill(&c.Limit, defaultSystemicLimit)
	return c
}

func (c SystemicConfig) check() error {
	switch {
	case !(c.Share <= 1): // true for NaN as well
		return fmt.Errorf("agentloop: Systemic.Share is %v, want at most 1", c.Share)
	case c.Min < 0:
		return fmt.Errorf("agentloop: Systemic.Min is %d, want 0 (for %d) or more", c.Min, defaultSystemicMin)
	case c.Action < SystemicHold || c.Action > SystemicStop:
		return fmt.Errorf("agentloop: Systemic.Action is %d, want one of the constants", c.Action)
	}
	return nil
}

// A SystemicError says that one endpoint failed most agents of a group at the same
// time. Agents that a group stops for it end as [Failed].
type SystemicError struct {
	Endpoint string // what the models call it; empty if they do not say
	Agents   int    // at work on it
	Waiting  int    // of them, those that wait for the model without a sign of life
	Failing  int    // of them, those whose calls failed
	Queued   int    // of them, those without a place (GroupConfig.MaxInFlight), since silent calls hold all
	Since    time.Time
	Held     time.Duration // how long calls were held back, in the end
	Err      error         // of the last call that failed, if one did

	// Explanation is what GroupConfig.Explain said about it.
	Explanation string

	announced, over bool          // used by the group alone
	after           time.Duration // until it was over
}

func (e *SystemicError) Error() string {
	s := "most agents get no answer"
	if e.Endpoint != "" {
		s += " from " + e.Endpoint
	}
	s += fmt.Sprintf(": of %d at work, %d wait without a sign of life and the calls of %d failed", e.Agents, e.Waiting, e.Failing)
	if e.Queued > 0 {
		s += fmt.Sprintf("; %d get no place, for the silent calls hold all", e.Queued)
	}
	if e.Held > 0 {
		s += fmt.Sprintf("; calls were held back for %v", brief(e.Held))
	}
	if e.Err != nil {
		s += "; the last said: " + e.Err.Error()
	}
	return explained(s, e.Explanation)
}

// Unwrap returns Err.
func (e *SystemicError) Unwrap() error { return e.Err }
