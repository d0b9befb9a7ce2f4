package pacer

import (
	"fmt"
	"time"
)

const defaultMaxQueue = 10_000

// Config sets up a [Pacer]. With the zero value the number of requests in
// flight adapts to what the server does well, and nothing else is bounded. In
// each field a negative value takes the bound away.
type Config struct {
	// RequestsPerMinute bounds how many requests are admitted in any 60
	// seconds. Zero means no bound. Permits given back with
	// [Permit.Return] do not count. Keeping it costs eight bytes for each
	// request of the last minute.
	RequestsPerMinute int

	// Burst bounds how many requests may start at once after a quiet spell;
	// beyond it they start evenly spaced. It means nothing without
	// RequestsPerMinute and cannot be larger. Zero means a tenth of
	// RequestsPerMinute, what six seconds allow, and at least 1: many
	// servers count in shorter spans than the minute they publish. With a
	// negative value the whole minute's worth may start at once.
	Burst int

	// TokensPerMinute bounds the tokens of what is admitted in any 60 seconds,
	// as far as demands and results tell of them: the estimate is reserved
	// when a request starts, and what it has used takes its place when it
	// ends. Zero means no bound.
	TokensPerMinute int

	// TokenBurst bounds how many tokens may start at once after a quiet spell,
	// but for a single request, which may be larger; those after it wait the
	// longer. Zero means a tenth of TokensPerMinute, and at least 1. With a
	// negative value the whole minute's worth may start at once.
	TokenBurst int

	// MaxInFlight bounds the permits that are out: given and not yet
	// released or returned. Zero means no bound. It holds beside what is
	// learned.
	MaxInFlight int

	// StartInFlight is how many requests may be in flight before anything is
	// known of the server. What is learned takes its place, within seconds if
	// it is too low. Zero means 8. With a negative value nothing is learned:
	// then only the other fields bound anything.
	StartInFlight int

	// FinishFirst lets requests go first whose demand is Finishing, among those
	// of one priority. It has work done sooner and holds more work back.
	FinishFirst bool

	// MaxQueue bounds how many callers wait; one more is refused with
	// [ErrQueueFull]. Zero means 10,000.
	MaxQueue int

	// Rand returns numbers in [0, 1). It puts the readmission after a
	// cool-down off by a little, so that processes that were told the same
	// time do not wake together. Nil means math/rand/v2. It is called with no
	// lock held and possibly from several goroutines.
	Rand func() float64
}

// New returns a Pacer, or an error that names the bad field.
func New(cfg Config) (*Pacer, error) {
	rpm := max(cfg.RequestsPerMinute, 0)
	burst := cfg.Burst
	switch {
	case rpm > 0 && burst > rpm:
		return nil, fmt.Errorf("pacer: Burst is %d, want at most RequestsPerMinute, %d", burst, rpm)
	case burst == 0:
		burst = max(rpm/10, 1)
	case burst < 0:
		burst = rpm
	}
	tpm := max(cfg.TokensPerMinute, 0)
	tokenBurst := cfg.TokenBurst
	switch {
	case tpm > 0 && tokenBurst > tpm:
		return nil, fmt.Errorf("pacer: TokenBurst is %d, want at most TokensPerMinute, %d", tokenBurst, tpm)
	case tokenBurst == 0:
		tokenBurst = max(tpm/10, 1)
	case tokenBurst < 0:
		tokenBurst = tpm
	}
	p := &Pacer{rand: cfg.Rand, born: time.Now(), core: core{
		maxInFlight: max(cfg.MaxInFlight, 0), maxQueue: cfg.MaxQueue, finishFirst: cfg.FinishFirst,
	}}
	if p.core.maxQueue == 0 {
		p.core.maxQueue = defaultMaxQueue
	}
	if rpm > 0 {
		p.core.rate = newMeter(rpm, burst)
	}
	if tpm > 0 {
		p.core.tokens = newPurse(tpm, tokenBurst)
	}
	if cfg.StartInFlight >= 0 {
		start := cfg.StartInFlight
		if start == 0 {
			start = defaultStart
		}
		p.core.climb = newClimber(start)
	}
	return p, nil
}
