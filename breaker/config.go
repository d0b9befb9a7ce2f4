package breaker

import (
	"fmt"
	"math"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	defaultFailures    = 5
	mostFailures       = 20
	defaultCooldown    = 5 * time.Second
	defaultMaxCooldown = 30 * time.Second
	defaultTrialLimit  = time.Minute
	maxTrialGrowth     = 10
	defaultPostpone    = 2 * time.Minute
	defaultRate        = 0.8
	defaultMinCalls    = 20
	defaultWindow      = 30 * time.Second

	minCooldown = time.Millisecond
)

// Config sets up a [Breaker]. The zero value is ready for use.
type Config struct {
	// Name stands in errors and changes. It may be empty.
	Name string

	// Failures is how many calls must fail in a row, with no success in between,
	// to open the breaker. A negative value never opens it. Zero adapts: 5, and
	// up to 20 as long as one of these holds:
	//
	//  1. By the share of calls that failed before the run, in the last Window,
	//     such a run is likelier than 1 in 10,000: of a share of one half it
	//     takes 14.
	//  2. Calls that began before the one that just failed are still running: it
	//     takes 4 failures for each of them, since failures are often quicker
	//     than answers.
	//  3. A running call has reported [Pass.Progress] since the run began.
	Failures int

	// FailureRate is the share of failed calls in the last Window that opens the
	// breaker, if there were at least MinCalls calls. It catches an endpoint that
	// still answers one call in ten, where no run of failures gets long. Zero
	// means 0.8, or never if Failures is negative. A negative value never opens
	// the breaker.
	FailureRate float64

	// MinCalls is the least number of calls in the Window for FailureRate to
	// count. Zero means 20.
	MinCalls int

	// Window is how far FailureRate looks back, accurate to a tenth. Zero means
	// 30 s.
	Window time.Duration

	// Cooldown is how long the breaker stays open before the first trial. It
	// doubles with each failed trial, up to MaxCooldown, until the breaker closes.
	// Calls that were running when it opened, and succeed, each save one failed
	// trial from doubling it, up to three. Zero means 5 s: outages of a model
	// endpoint are mostly restarts of a few seconds, so that a longer pause costs
	// more than one request every five seconds does.
	Cooldown time.Duration

	// MaxCooldown bounds the doubled Cooldown, and so the time from the end of a
	// long outage to the next trial. Zero means 30 s, or Cooldown if that is
	// longer. A negative value keeps Cooldown from growing.
	MaxCooldown time.Duration

	// MaxPostpone bounds by how much [Breaker.Postpone] puts off one trial in all.
	// Zero means 2 minutes. With a negative value nothing is put off.
	MaxPostpone time.Duration

	// Trials is how many calls a half-open breaker lets through at once, and how
	// many of them must succeed, with no failure, to close it. Zero means 1.
	Trials int

	// TrialLimit is how long a trial may take without [Pass.Progress]. Then it is
	// written off: its verdict no longer counts, and the next trial may start after
	// a cool-down that began at its last sign of life, so is mostly over. The limit
	// doubles with each trial written off, up to ten times TrialLimit, until the
	// breaker closes: an endpoint that is slower than the limit gets its chance.
	// Zero means 1 minute. There is always a limit, since one lost trial would
	// keep the breaker from closing for ever.
	TrialLimit time.Duration

	// OnChange, if not nil, gets each change of state. Calls come in order, one at
	// a time, with no lock held, so it may call the Breaker's own methods. It runs
	// in the goroutine that caused the change, or in one that is passing on an
	// earlier change. It should be quick.
	OnChange func(Change)
}

// New returns a closed Breaker, or an error that names the bad field.
func New(cfg Config) (*Breaker, error) {
	switch {
	case cfg.Cooldown < 0 || 0 < cfg.Cooldown && cfg.Cooldown < minCooldown:
		return nil, fmt.Errorf("breaker: Cooldown is %v, want 0 for the default of %v, or %v or more",
			cfg.Cooldown, defaultCooldown, minCooldown)
	case cfg.TrialLimit < 0:
		return nil, fmt.Errorf("breaker: TrialLimit is %v, want 0 for the default of %v, or more",
			cfg.TrialLimit, defaultTrialLimit)
	case cfg.FailureRate > 1 || math.IsNaN(cfg.FailureRate):
		return nil, fmt.Errorf("breaker: FailureRate is %v, want 0 for the default of %v, up to 1, or less than 0 for never",
			cfg.FailureRate, defaultRate)
	case cfg.MinCalls < 0:
		return nil, fmt.Errorf("breaker: MinCalls is %d, want 0 for the default of %d, or more", cfg.MinCalls, defaultMinCalls)
	case cfg.Window < 0 || 0 < cfg.Window && cfg.Window < minCooldown:
		return nil, fmt.Errorf("breaker: Window is %v, want 0 for the default of %v, or %v or more", cfg.Window, defaultWindow, minCooldown)
	case cfg.Trials < 0 || int64(cfg.Trials) > math.MaxUint32:
		return nil, fmt.Errorf("breaker: Trials is %d, want 0 for the default of 1, or 1 to %d",
			cfg.Trials, uint32(math.MaxUint32))
	}
	lucky := cfg.Failures == 0
	if lucky {
		cfg.Failures = defaultFailures
	}
	switch {
	case cfg.FailureRate == 0 && cfg.Failures < 0:
		cfg.FailureRate = -1
	case cfg.FailureRate == 0:
		cfg.FailureRate = defaultRate
	}
	if cfg.MinCalls == 0 {
		cfg.MinCalls = defaultMinCalls
	}
	if cfg.Window == 0 {
		cfg.Window = defaultWindow
	}
	if cfg.Cooldown == 0 {
		cfg.Cooldown = defaultCooldown
	}
	if cfg.MaxPostpone == 0 {
		cfg.MaxPostpone = defaultPostpone
	}
	cfg.MaxPostpone = max(cfg.MaxPostpone, 0)
	if cfg.TrialLimit == 0 {
		cfg.TrialLimit = defaultTrialLimit
	}
	if cfg.Trials == 0 {
		cfg.Trials = 1
	}
	switch {
	case cfg.MaxCooldown == 0:
		cfg.MaxCooldown = max(defaultMaxCooldown, cfg.Cooldown)
	case cfg.MaxCooldown < 0:
		cfg.MaxCooldown = cfg.Cooldown
	case cfg.MaxCooldown < cfg.Cooldown:
		return nil, fmt.Errorf("breaker: MaxCooldown is %v, want at least Cooldown, %v", cfg.MaxCooldown, cfg.Cooldown)
	}

	b := &Breaker{onChange: cfg.OnChange}
	b.core.init(cfg)
	b.core.luck.on = lucky
	return b, nil
}

// settings are those of the counter underneath. Its timeout is as short as it can
// be, since when to leave the open state is decided here. The counter's own timeout
// is fixed, and it still refuses at exactly that time.
func settings(cfg Config, trip func(gobreaker.Counts) bool, changed func(from, to gobreaker.State)) gobreaker.Settings {
	return gobreaker.Settings{
		MaxRequests:   uint32(cfg.Trials),
		Timeout:       time.Nanosecond,
		ReadyToTrip:   trip,
		OnStateChange: func(_ string, from, to gobreaker.State) { changed(from, to) },
	}
}
