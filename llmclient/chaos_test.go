package llmclient_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// Calls at random endpoints, which answer at random, through guards set at random,
// some of them with a deadline or cancelled: each returns in time, with an answer
// or an error of ours, and leaves nothing behind. The name of a failed run is its
// seed. One that does not end makes no headway in virtual time.
func TestWhateverHappensEachCallReturns(t *testing.T) {
	replies := []fake.Step{
		fake.Answer("ok"), fake.Answer("ok"), fake.Answer("ok"),
		fake.Reply(fake.Pause(3*time.Second), fake.Text("a"), fake.Pause(5*time.Second), fake.Text("b"), fake.End("stop")),
		fake.Reply(fake.RetryAfter(1500*time.Millisecond), fake.Throttled()), fake.Reply(fake.RetryAfter(7*time.Second), fake.Throttled()), fake.Throttled(),
		fake.Unavailable(), fake.Status(500, "x"), fake.Error(400, "", "", "streaming is not supported"),
		fake.Error(401, "", "invalid_api_key", "wrong"), fake.Error(404, "", "model_not_found", "none"), fake.OutOfQuota(),
		fake.ErrorInside(fake.ErrorOpenAI, 429, "slow down"), fake.HTML(), fake.Malformed(), fake.Done(), fake.Reset(), fake.Hang(),
		fake.Reply(fake.Text("a"), fake.Hang()), fake.Reply(fake.Text("a"), fake.Reset()), fake.Reply(fake.Role(), fake.Pings(10*time.Second)),
	}
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dice := &dice{r: rand.New(rand.NewPCG(seed, 1))}
			var srvs []fake.Config
			for range 1 + dice.roll(4) {
				var some []fake.Step
				for range 1 + dice.roll(4) {
					some = append(some, replies[dice.roll(len(replies))])
				}
				srvs = append(srvs, fake.Config{Script: func(*fake.Request) fake.Step { return some[dice.roll(len(some))] }})
			}
			inRealm(t, srvs, dice.configure, func(t *testing.T, r *realm) {
				var wg sync.WaitGroup
				for range 12 {
					wg.Go(func() {
						time.Sleep(dice.seconds(30))
						dice.call(t, r)
					})
				}
				wg.Wait()
				sent := 0
				for _, n := range r.asked() {
					sent += n
				}
				assert.LessOrEqual(t, sent, len(r.ofKind(llmclient.EventAttempt)), "requests that are no attempts")
			})
		})
	}
}

// dice are random numbers for several goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// seconds is at least one.
func (d *dice) seconds(most int) time.Duration { return time.Duration(1+d.roll(most)) * time.Second }

func (d *dice) configure(c *llmclient.Config) {
	for i := range c.Endpoints {
		c.Endpoints[i].Order, c.Endpoints[i].Weight = d.roll(2), d.roll(3)
		if d.roll(3) == 0 {
			c.Endpoints[i].Pacer = &pacer.Config{MaxInFlight: 1 + d.roll(3), MaxQueue: 1 + d.roll(5)}
		}
	}
	c.WhenOpen = llmclient.WhenOpen(d.roll(3))
	c.Breaker = breaker.Config{Failures: 1 + d.roll(4), Cooldown: d.seconds(60)}
	c.Retry.Attempts = 1 + d.roll(5)
	if d.roll(2) == 0 {
		c.Clocks.FirstOutput.Limit = 5*time.Second + d.seconds(60)
	}
}

// call makes a call, and checks how it ends.
func (d *dice) call(t *testing.T, r *realm) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	within := 3 * time.Hour // what is left to our own clocks, Queue among them
	switch d.roll(4) {
	case 0:
		within = d.seconds(120)
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	case 1:
		within = d.seconds(120)
		time.AfterFunc(within, cancel)
	}
	start := time.Now()
	var resp *chat.Response
	var err error
	if d.roll(2) == 0 {
		resp, err = r.client.Chat(ctx, hello())
	} else {
		resp, err = r.client.Stream(ctx, hello()).Response()
	}
	assert.LessOrEqual(t, time.Since(start), within, "%v", err)
	if err == nil {
		assert.NotEmpty(t, resp.Message.Content)
		assert.NotEmpty(t, resp.Endpoint)
		return
	}
	e, ok := errors.AsType[*llmclient.Error](err)
	if assert.True(t, ok, "error is %T", err) {
		assert.NotZero(t, e.Kind)
	}
}
