package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/neverhang/neverhang/breaker"
)

func ExampleBreaker_Acquire() {
	b, err := breaker.New(breaker.Config{Name: "api", Failures: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	away := errors.New("connection refused")

	call := func(send func() error) error {
		pass, err := b.Acquire()
		if err != nil {
			return err
		}
		defer pass.Done(breaker.Ignored) // does nothing if it has been judged
		if err := send(); err != nil {
			pass.Done(breaker.Failure)
			return err
		}
		pass.Done(breaker.Success)
		return nil
	}
	for range 4 {
		err := call(func() error { return away })
		fmt.Println(errors.Is(err, breaker.ErrOpen), b.State())
	}
	// Output:
	// false closed
	// false closed
	// false open
	// true open
}

// A caller with much work behind it outlives the outage.
func ExampleBreaker_Wait() {
	b, _ := breaker.New(breaker.Config{Failures: 1, Cooldown: 10 * time.Millisecond})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	for attempt := 1; ; attempt++ {
		if err := b.Wait(ctx); err != nil {
			fmt.Println(err)
			return
		}
		pass, err := b.Acquire()
		if err != nil {
			continue // another was quicker
		}
		if attempt == 1 {
			pass.Done(breaker.Failure)
			continue
		}
		fmt.Println("trial:", pass.Trial())
		pass.Done(breaker.Success)
		fmt.Println(b.State())
		return
	}
	// Output:
	// trial: true
	// closed
}

func ExampleConfig_onChange() {
	b, _ := breaker.New(breaker.Config{
		Failures: 2,
		OnChange: func(c breaker.Change) { fmt.Printf("%s to %s: %s\n", c.From, c.To, c.Why) },
	})
	for range 2 {
		pass, _ := b.Acquire()
		pass.Done(breaker.Failure)
	}
	// Output:
	// closed to open: 2 failures in a row
}
