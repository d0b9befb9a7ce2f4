package pacer

import (
	"fmt"
	"math/rand/v2"
)

const defaultMaxQueue = 10_000

// Config sets up a [Pacer]. The zero value sets no limit: such a pacer only
// keeps cool-downs. In each field a negative value takes the bound away.
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

	// MaxInFlight bounds the permits that are out: given and not yet
	// released or returned. Zero means no bound.
	MaxInFlight int

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
	p := &Pacer{rand: cfg.Rand, core: core{maxInFlight: max(cfg.MaxInFlight, 0), maxQueue: cfg.MaxQueue}}
	if p.rand == nil {
		p.rand = rand.Float64
	}
	if p.core.maxQueue == 0 {
		p.core.maxQueue = defaultMaxQueue
	}
	if rpm > 0 {
		p.core.rate = newMeter(rpm, burst)
	}
	return p, nil
}
