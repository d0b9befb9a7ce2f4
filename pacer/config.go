package pacer

import (
	"fmt"
	"time"
)

const defaultMaxQueue = 10_000

// Config sets up a [Pacer]. With the zero value the number of requests in
// flight adapts to what the server does well, and nothing else is bounded. A
// negative number means no bound, except where a field says otherwise.
type Config struct {
	// RequestsPerMinute bounds how many requests are admitted in any 60 seconds.
	// Zero means no bound. Permits given back with [Permit.Return] do not count.
	// It costs eight bytes for each request of the last minute.
	RequestsPerMinute int

	// Burst bounds how many requests may start at once after a quiet time. Those
	// beyond it start evenly spaced. It needs RequestsPerMinute, and cannot be
	// larger. Zero means a tenth of RequestsPerMinute, and at least 1, since many
	// servers count in shorter spans than a minute. With a negative value the
	// requests of a whole minute may start at once.
	Burst int

	// TokensPerMinute bounds the tokens of the requests admitted in any 60
	// seconds. The estimate of the [Demand] is reserved when a request starts, and
	// is replaced by the use in the [Result] when it ends. Zero means no bound.
	TokensPerMinute int

	// TokenBurst bounds how many tokens may start at once after a quiet time. A
	// single request may be larger, and those after it wait longer. Zero means a
	// tenth of TokensPerMinute, and at least 1. With a negative value the tokens
	// of a whole minute may start at once.
	TokenBurst int

	// MaxInFlight bounds the permits that are out: given and not yet given back.
	// Zero means no bound. It holds besides the learned limit.
	MaxInFlight int

	// StartInFlight is how many requests may be in flight until the pacer has
	// learned a limit, which takes seconds if this is too low. Zero means 8. With
	// a negative value no limit is learned, and only the other fields bound
	// anything.
	StartInFlight int

	// FinishFirst lets requests whose Demand is Finishing go first, among those of
	// one priority. Work that is nearly done ends sooner, and other work later.
	FinishFirst bool

	// MaxQueue bounds how many callers wait; one more is refused with
	// [ErrQueueFull]. Zero means 10,000, negative no bound.
	MaxQueue int

	// Rand returns numbers in [0, 1). They are the jitter of the readmission after
	// a cool-down, so that processes with the same Retry-After do not start
	// together. Nil means math/rand/v2. It is called with no lock held, and may be
	// called from several goroutines.
	Rand func() float64
}

// New returns a Pacer, or an error that names the bad field.
func New(cfg Config) (*Pacer, error) {
	rpm, tpm := max(cfg.RequestsPerMinute, 0), max(cfg.TokensPerMinute, 0)
	burst, err := burstOf(cfg.Burst, rpm, "Burst", "RequestsPerMinute")
	if err != nil {
		return nil, err
	}
	tokenBurst, err := burstOf(cfg.TokenBurst, tpm, "TokenBurst", "TokensPerMinute")
	if err != nil {
		return nil, err
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

// burstOf fills in a burst, which goes with the bound of a minute.
func burstOf(burst, perMinute int, field, minuteField string) (int, error) {
	switch {
	case perMinute > 0 && burst > perMinute:
		return 0, fmt.Errorf("pacer: %s is %d, want at most %s, %d", field, burst, minuteField, perMinute)
	case burst == 0:
		return max(perMinute/10, 1), nil
	case burst < 0:
		return perMinute, nil
	}
	return burst, nil
}
