package benchmarks

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

// A policy is a way to guard calls, by name.
type policy struct {
	name string
	make func() guard
}

// once is for guards that try a call once.
type once struct{}

func (once) Again(int, int, engine.Outcome) (time.Duration, bool) { return 0, false }

// silent is for trips that hear of nothing but the end.
type silent struct{}

func (silent) First(time.Duration) {}
func (silent) Output(int)          {}

// open lets everything through.
type open struct{ once }

type openTrip struct{ silent }

func (open) Enter(context.Context, int) (trip, error) { return openTrip{}, nil }
func (openTrip) Leave(engine.Outcome)                 {}

// sdk lets everything through and tries again as the vendors' SDKs do: twice,
// half a second doubled up to eight, less a quarter at random.
type sdk struct{ open }

func (sdk) Again(_, tries int, _ engine.Outcome) (time.Duration, bool) {
	d := min(500*time.Millisecond<<(tries-1), 8*time.Second)
	return time.Duration(float64(d) * (1 - rand.Float64()/4)), tries <= 2
}

// fixed is x/sync/semaphore.
type fixed struct {
	once
	sem *semaphore.Weighted
}

type fixedTrip struct {
	silent
	guard *fixed
}

func fixedAt(n int) func() guard {
	return func() guard { return &fixed{sem: semaphore.NewWeighted(int64(n))} }
}

func (g *fixed) Enter(ctx context.Context, _ int) (trip, error) {
	if err := g.sem.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return fixedTrip{guard: g}, nil
}

func (t fixedTrip) Leave(engine.Outcome) { t.guard.sem.Release(1) }

// paced is x/time/rate alone.
type paced struct {
	once
	limiter *rate.Limiter
}

func pacedAt(perSecond float64) func() guard {
	return func() guard { return &paced{limiter: rate.NewLimiter(rate.Limit(perSecond), 1)} }
}

func (g *paced) Enter(ctx context.Context, _ int) (trip, error) {
	if err := g.limiter.Wait(ctx); err != nil {
		<-ctx.Done() // the next start would be past the end
		return nil, err
	}
	return openTrip{}, nil
}

// failsafe is failsafe-go's adaptive limiter, alone or with its breaker and
// three tries.
type failsafe struct {
	limiter adaptivelimiter.AdaptiveLimiter[any]
	breaker circuitbreaker.CircuitBreaker[any]
}

type failsafeTrip struct {
	silent
	guard  *failsafe
	permit adaptivelimiter.Permit
}

func failsafeFrom(start uint, stack bool) func() guard {
	return func() guard {
		g := &failsafe{limiter: adaptivelimiter.NewBuilder[any]().WithLimits(1, 200, start).Build()}
		if stack {
			g.breaker = circuitbreaker.NewBuilder[any]().WithFailureThreshold(5).WithDelay(5 * time.Second).Build()
		}
		return g
	}
}

func (g *failsafe) Enter(ctx context.Context, _ int) (trip, error) {
	permit, err := g.limiter.AcquirePermit(ctx)
	if err != nil {
		return nil, err
	}
	if g.breaker != nil && !g.breaker.TryAcquirePermit() {
		permit.Drop()
		return nil, circuitbreaker.ErrOpen
	}
	return &failsafeTrip{guard: g, permit: permit}, nil
}

func (g *failsafe) Again(_, tries int, _ engine.Outcome) (time.Duration, bool) {
	return backoff(tries, 500*time.Millisecond, 8*time.Second), g.breaker != nil && tries < 3
}

func (t *failsafeTrip) Leave(o engine.Outcome) {
	if o.Result.Useful() {
		t.permit.Record()
	} else {
		t.permit.Drop()
	}
	if b := t.guard.breaker; b != nil {
		if o.Result.Useful() {
			b.RecordSuccess()
		} else {
			b.RecordFailure()
		}
	}
}

// amazon is the AWS SDK's retryer with its quota for retries. Its adaptive mode
// is not here: the waits of it that are rounded to nothing go round and round
// in virtual time, which stands still meanwhile.
type amazon struct {
	retryer aws.RetryerV2

	mu    sync.Mutex
	spent map[int]func(error) error // by agent: the retry under way
}

type amazonTrip struct {
	silent
	guard *amazon
	agent int
	done  func(error) error
}

var (
	errThrottled = errors.New("throttled")
	errFailed    = errors.New("failed")
)

func newAmazon() guard {
	standard := func(o *awsretry.StandardOptions) {
		o.Retryables = []awsretry.IsErrorRetryable{awsretry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			return aws.BoolTernary(err != nil)
		})}
		o.Throttles = []awsretry.IsErrorThrottle{awsretry.IsErrorThrottleFunc(func(err error) aws.Ternary {
			return aws.BoolTernary(errors.Is(err, errThrottled))
		})}
	}
	g := &amazon{spent: make(map[int]func(error) error)}
	g.retryer = awsretry.NewStandard(standard)
	return g
}

func (g *amazon) Enter(ctx context.Context, agent int) (trip, error) {
	done, err := g.retryer.GetAttemptToken(ctx)
	if err != nil {
		return nil, err
	}
	return &amazonTrip{guard: g, agent: agent, done: done}, nil
}

func amazonError(o engine.Outcome) error {
	switch {
	case o.Result.Useful():
		return nil
	case o.Result == engine.Left, o.Result == engine.Broken:
		return errFailed
	}
	return errThrottled
}

func (t *amazonTrip) Leave(o engine.Outcome) {
	err := amazonError(o)
	_ = t.done(err)
	t.guard.mu.Lock()
	defer t.guard.mu.Unlock()
	if give := t.guard.spent[t.agent]; give != nil {
		_ = give(err)
		delete(t.guard.spent, t.agent)
	}
}

func (g *amazon) Again(agent, tries int, o engine.Outcome) (time.Duration, bool) {
	if tries >= g.retryer.MaxAttempts() {
		return 0, false
	}
	err := amazonError(o)
	give, noMore := g.retryer.GetRetryToken(context.Background(), err)
	if noMore != nil {
		return 0, false
	}
	g.mu.Lock()
	g.spent[agent] = give
	g.mu.Unlock()
	d, wrong := g.retryer.RetryDelay(tries, err)
	return d, wrong == nil
}

// thrifty is gRPC's retry throttling: a failure takes a token, a success gives
// a tenth of one, and there are retries while more than half of ten are left.
type thrifty struct {
	mu     sync.Mutex
	tokens float64
}

type thriftyTrip struct {
	silent
	guard *thrifty
}

func newThrifty() guard { return &thrifty{tokens: 10} }

func (g *thrifty) Enter(context.Context, int) (trip, error) { return thriftyTrip{guard: g}, nil }

func (t thriftyTrip) Leave(o engine.Outcome) {
	t.guard.mu.Lock()
	defer t.guard.mu.Unlock()
	if o.Result.Useful() {
		t.guard.tokens = min(10, t.guard.tokens+0.1)
	} else {
		t.guard.tokens = max(0, t.guard.tokens-1)
	}
}

func (g *thrifty) Again(_, tries int, _ engine.Outcome) (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := min(100*math.Pow(1.6, float64(tries-1)), 5000) * rand.Float64()
	return time.Duration(d * float64(time.Millisecond)), tries < 4 && g.tokens > 5
}

var peers = []policy{
	{"no limit", func() guard { return open{} }},
	{"no limit, an SDK's retries", func() guard { return sdk{} }},
	{"fixed limit 20", fixedAt(20)},
	{"fixed limit 24", fixedAt(24)},
	{"x/time/rate, 4 a second", pacedAt(4)},
	{"x/time/rate, 6 a second", pacedAt(6)},
	{"failsafe-go adaptive limiter", failsafeFrom(20, false)},
	{"failsafe-go adaptive limiter, start 4", failsafeFrom(4, false)},
	{"failsafe-go, start 4, its breaker, retries", failsafeFrom(4, true)},
	{"AWS retry quota", newAmazon},
	{"gRPC retry throttling", newThrifty},
}
