package pacer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/neverhang/neverhang/pacer"
)

func Example() {
	p, err := pacer.New(pacer.Config{RequestsPerMinute: 500, MaxInFlight: 32})
	if err != nil {
		fmt.Println(err)
		return
	}

	call := func(ctx context.Context) error {
		permit, err := p.Acquire(ctx)
		if err != nil {
			return err
		}
		defer permit.Release() // when the answer has been read to its end

		fmt.Println("in flight:", p.Stats().InFlight)
		return nil
	}
	fmt.Println(call(context.Background()))
	fmt.Println("in flight:", p.Stats().InFlight)
	// Output:
	// in flight: 1
	// <nil>
	// in flight: 0
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
