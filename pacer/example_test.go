package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/neverhang/neverhang/pacer"
)

func Example() {
	p, err := pacer.New(pacer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}

	call := func(ctx context.Context) error {
		permit, err := p.AcquireFor(ctx, pacer.Demand{Agent: "agent 7"})
		if err != nil {
			return err
		}
		defer permit.Release() // does nothing after Done

		fmt.Println("in flight:", p.Stats().InFlight, "of", p.Stats().Limit)
		permit.FirstOutput(300 * time.Millisecond)
		permit.Done(pacer.Result{Outcome: pacer.Answered, Outputs: 120})
		return nil
	}
	fmt.Println(call(context.Background()))
	fmt.Println("in flight:", p.Stats().InFlight)
	// Output:
	// in flight: 1 of 8
	// <nil>
	// in flight: 0
}

// An estimate is reserved, and what was used takes its place.
func ExamplePermit_Done() {
	p, _ := pacer.New(pacer.Config{TokensPerMinute: 10_000, TokenBurst: -1})

	permit, _ := p.AcquireFor(context.Background(), pacer.Demand{Tokens: 9_000})
	fmt.Println("booked:", p.Stats().TokensBooked)
	permit.Done(pacer.Result{Outcome: pacer.Answered, Tokens: 1_200})
	fmt.Println("booked:", p.Stats().TokensBooked)

	_, err := p.AcquireFor(context.Background(), pacer.Demand{Tokens: 10_001})
	fmt.Println(err)
	// Output:
	// booked: 9000
	// booked: 1200
	// pacer: request is too large: 10001 tokens, want at most 10000, all that a minute has
}

// A waiting caller can see what it waits for, and how many are ahead.
func ExamplePacer_Enqueue() {
	p, _ := pacer.New(pacer.Config{MaxInFlight: 1})
	permit, _ := p.Acquire(context.Background())

	ticket, err := p.Enqueue(context.Background(), pacer.Demand{Agent: "agent 7", Priority: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ticket.Cancel()
	fmt.Println(ticket.Place().Ahead, "ahead, waiting for", ticket.Place().For)

	permit.Release()
	mine, err := ticket.Wait(context.Background())
	fmt.Println(err)
	mine.Release()
	// Output:
	// 0 ahead, waiting for a request in flight to end
	// <nil>
}

// One caller was told to wait; all callers do.
func ExamplePacer_CoolDown() {
	p, _ := pacer.New(pacer.Config{})
	p.CoolDown(time.Minute) // 429, Retry-After: 60

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := p.Acquire(ctx)

	if we, ok := errors.AsType[*pacer.WaitError](err); ok {
		fmt.Println("not now: waiting for", we.For)
	}
	fmt.Println("deadline:", errors.Is(err, context.DeadlineExceeded))
	// Output:
	// not now: waiting for the end of a cool-down
	// deadline: true
}

// A permit that turns out not to be needed goes back with all it has taken.
func ExamplePermit_Return() {
	p, _ := pacer.New(pacer.Config{RequestsPerMinute: 1})

	permit, _ := p.Acquire(context.Background())
	permit.Return() // nothing was sent

	_, err := p.Acquire(context.Background()) // does not wait for a minute
	fmt.Println(err)
	// Output:
	// <nil>
}
