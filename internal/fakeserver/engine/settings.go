package engine

import (
	"fmt"
	"slices"
	"time"
)

// calibrated is the engine that the settings have in common: 16 slots whose
// steps grow with the square of the batch, a queue of 32, and aborts that pin
// a slot. With 64 agents that wait five seconds for an answer it does most
// with about 10 requests in flight, about two thirds of that with 20, and as
// good as nothing from 24 on: then answers come too late, and giving up on
// them takes slots from others. The numbers were found by search.
func calibrated(seed uint64) Config {
	return Config{
		Seed:    seed,
		Slots:   16,
		Queue:   32,
		Answers: Lengths{Mean: 60, Spread: 0.25},
		Cost:    Cost{Step: 17 * time.Millisecond, PerSequence: -1, PerPair: 165 * time.Microsecond},
		Abort:   Abort{Pin: 24 * time.Second},
	}
}

// The settings of [Setting] play for SettingTime, and what changes in them
// does so from ChangeAt on.
const (
	SettingTime = 6 * time.Minute
	ChangeAt    = 2 * time.Minute
)

var settings = map[string]func(Config) Config{
	// The calibrated engine, and nothing happens.
	"overload": func(c Config) Config { return c },

	// A pause longer than clients wait has all of them give up at once, and
	// what they gave up pins its slot for a minute.
	"abort-storm": func(c Config) Config {
		c.Abort.Pin = time.Minute
		return during(Change{Kind: Wedge, At: ChangeAt, Until: ChangeAt + 6*time.Second})(c)
	},

	// The cost of batching is sixfold for two minutes.
	"batch-cost": during(Change{Kind: BatchCost, Factor: 6, At: ChangeAt, Until: 2 * ChangeAt}),

	// Steps take longer and longer, in the end three times as long.
	"slow-degradation": during(Change{Kind: Degrade, Factor: 3, At: time.Minute, Until: 5 * time.Minute}),

	// Half of the engine is lost.
	"halving": during(Change{Kind: Capacity, Factor: 0.5, At: ChangeAt}),

	// It is gone for a minute.
	"outage-recovery": during(Change{Kind: Down, At: ChangeAt, Until: ChangeAt + time.Minute}),

	// It takes what comes for a minute and never answers it.
	"silent-outage": during(Change{Kind: Silent, At: ChangeAt, Until: ChangeAt + time.Minute}),

	// A gateway refuses all for a minute.
	"refusing-outage": during(Change{Kind: Unavailable, At: ChangeAt, Until: ChangeAt + time.Minute}),

	// Long prompts are never answered any more: see [Load.Grow].
	"long-context-hang": during(Change{Kind: WedgeLong, N: 4096, At: ChangeAt}),

	// Long prompts are answered without end.
	"long-context-runaway": during(Change{Kind: RunawayLong, N: 4096, At: ChangeAt}),

	// It decodes one answer at a time.
	"serialised-decode": during(Change{Kind: Serial, N: 1, At: ChangeAt}),

	// The scheduler stops.
	"wedged-engine": during(Change{Kind: Wedge, At: ChangeAt}),

	// Some requests are taken and forgotten.
	"lost-requests": during(Change{Kind: Lose, Factor: 0.3, At: ChangeAt}),

	// Some answers do not end before the context does.
	"runaway": during(Change{Kind: Runaway, Factor: 0.2, At: ChangeAt}),

	// The account is used up.
	"out-of-quota": during(Change{Kind: OutOfQuota, At: ChangeAt}),

	// The account may ask twice a second, less than the engine could answer.
	"rate-limited": func(c Config) Config {
		c.Limits = Limits{Requests: 120, Window: 10 * time.Second}
		return c
	},

	// Nine tenths of the memory are gone.
	"kv-exhausted": func(c Config) Config {
		c.KVTokens = 20_000
		return during(Change{Kind: Memory, Factor: 0.1, At: ChangeAt})(c)
	},

	// A router's queue is all that is full.
	"router-full": func(c Config) Config {
		c.Router = &Router{InFlight: 2, Queue: 16}
		return c
	},

	// Transfers between prefill and decode stop.
	"wedged-transfer": apart(Change{Kind: WedgeTransfer, At: ChangeAt}),

	// The decode side alone restarts, and the handshakes of before do no more.
	"partial-restart": apart(
		Change{Kind: Down, Side: Decode, At: ChangeAt, Until: ChangeAt + 20*time.Second},
		Change{Kind: WedgeTransfer, At: ChangeAt},
	),

	// Aborts during a transfer never leave the prefill side.
	"stuck-prefill": apart(Change{Kind: StickAborts, At: ChangeAt}, Change{Kind: WedgeTransfer, At: ChangeAt, Until: ChangeAt + 30*time.Second}),

	// The handshake between the sides fails.
	"wedged-bootstrap": apart(Change{Kind: WedgeBootstrap, At: ChangeAt}),
}

func during(changes ...Change) func(Config) Config {
	return func(c Config) Config {
		c.Changes = changes
		return c
	}
}

// apart is the calibrated engine with prefill and decode apart.
func apart(changes ...Change) func(Config) Config {
	return func(c Config) Config {
		c.Split = &Split{}
		c.Router = &Router{}
		c.Changes = changes
		return c
	}
}

// Names returns the names of all settings.
func Names() []string { return sorted(settings) }

// Setting returns an engine of that name, or an error that lists the names.
func Setting(name string, seed uint64) (Config, error) {
	f := settings[name]
	if f == nil {
		return Config{}, fmt.Errorf("engine: setting %q is not known; there are %v", name, Names())
	}
	cfg := f(calibrated(seed))
	cfg.Changes = slices.Clone(cfg.Changes)
	return cfg, nil
}
