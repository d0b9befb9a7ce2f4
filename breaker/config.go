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

	// Failures is the run of failed calls, with no success in between, that
	// opens the breaker. A negative value never opens it. Zero means 5, or up to
	// 20 if it may be chance: if, going by the share of the last Window, such a
	// run comes about more than once in ten thousand calls; if others are out
	// that began before, a quarter as many; if others make headway meanwhile.
	Failures int

	// FailureRate is the share of the calls of the last Window that opens the
	// breaker when they have failed, if there were MinCalls of them at least.
	// It sees what a run of failures does not, an endpoint of which one call in
	// ten still succeeds. Zero means 0.8, or never if Failures is negative: a
	// lone caller of a flaky endpoint is not to be locked out. A negative value
	// never opens it.
	FailureRate float64

	// MinCalls is how few calls in the Window say nothing. Zero means 20.
	MinCalls int

	// Window is how far FailureRate looks back, to a tenth of it. Zero means
	// 30 s.
	Window time.Duration

	// Cooldown is how long the breaker stays open before the first trial.
	// It doubles with each trial that fails, up to MaxCooldown, but for one
	// trial for each call, up to three, that has succeeded since it opened, and
	// is as before when the breaker has closed. Zero means 5 s: outages of a model
	// endpoint are mostly restarts of a few seconds, for which a long first
	// pause costs more than one request in five seconds does.
	Cooldown time.Duration

	// MaxCooldown bounds the doubled Cooldown and so how late the end of a
	// long outage is noticed. Zero means 30 s, or Cooldown if that is longer;
	// a negative value keeps Cooldown from growing.
	MaxCooldown time.Duration

	// MaxPostpone bounds by how much [Breaker.Postpone] puts off one trial, in
	// all. After that it goes, whatever a health check may say. Zero means
	// 2 minutes; with a negative value nothing is put off.
	MaxPostpone time.Duration

	// Trials is how many calls a half-open breaker lets through at once, and
	// how many of them must succeed, with no failure, to close it. Zero
	// means 1.
	Trials int

	// TrialLimit is how long a trial may go without a verdict and without
	// [Pass.Progress]. Then it is written off: its verdict, should it come, is
	// dropped, and the next trial may start, after a cool-down that counts
	// from when it was last heard of and so is mostly over. The limit doubles
	// with each trial written off, up to ten times TrialLimit, until the
	// breaker has closed, so that an endpoint which needs longer than this to
	// show any headway gets its chance. Zero means 1 minute; without a limit
	// one lost trial could keep the breaker shut for ever.
	TrialLimit time.Duration

	// OnChange, if not nil, hears of each change of state. Calls come in
	// order, one at a time, with no lock held, so it may call the Breaker's
	// own methods. It runs in the goroutine that brought the change about, or
	// in one that is telling an earlier change, and should be quick.
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

// settings are those of the counter underneath. Its timeout is as short as it
// can be, because when to leave the open state is decided here: the counter's
// is fixed, and it still refuses when exactly that time has passed.
func settings(cfg Config, trip func(gobreaker.Counts) bool, changed func(from, to gobreaker.State)) gobreaker.Settings {
	return gobreaker.Settings{
		MaxRequests:   uint32(cfg.Trials),
		Timeout:       time.Nanosecond,
		ReadyToTrip:   trip,
		OnStateChange: func(_ string, from, to gobreaker.State) { changed(from, to) },
	}
}
