package agentloop

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"time"
)

// A loss is user code that did not return by itself.
type loss struct {
	err       error
	panicked  *PanicError // if that is how
	abandoned bool        // it ignored its context
	labels    callLabels  // of the goroutine that was abandoned
}

// guarded runs user code on a goroutine of its own. It returns at the latest Grace
// after ctx has ended, with the result of the code or with a loss. A result of
// abandoned code that comes later is dropped.
//
// An agent's loop runs user code in no other way, which is why it always ends. The
// methods of an error are user code as well: fn asks them all that the loop has to
// know.
func guarded[T any](ctx context.Context, run *run, in string, fn func(context.Context) T) (value T, lost *loss) {
	type returned struct {
		value T
		lost  *loss
	}
	back := make(chan returned, 1) // room for one: late code must not block
	// Labels for profiles and goroutine dumps. They are set here, since there are
	// thousands of these goroutines and their stacks are small.
	labels := callLabels{run.name(), in, strconv.FormatInt(run.group.calls.Add(1), 10)}
	x := running{labels, in, time.Now()}
	run.enters(x)
	labelled := pprof.WithLabels(ctx, labels.set())
	go func() {
		defer run.leaves(x)
		r := returned{lost: &loss{err: fmt.Errorf("%s %w", in, ErrExited)}}
		defer func() {
			// It is nil only if there was no panic, even for panic(nil).
			if v := recover(); v != nil {
				p := &PanicError{In: in, Value: v, Stack: debug.Stack(), text: fmt.Sprint(v)}
				r.lost = &loss{err: p, panicked: p}
			}
			back <- r
		}()
		pprof.SetGoroutineLabels(labelled)
		r.value = fn(labelled)
		r.lost = nil
	}()

	select {
	case r := <-back:
		return r.value, r.lost
	case <-ctx.Done():
	}
	// In slices: each is also a turn of the scheduler. When thousands of agents end at
	// once on a busy machine, code that has seen the end of its context may not have run
	// yet when the time is up. Slices come late there too, so the patience grows with
	// the load.
	const slices = 10
	grace := run.grace()
	patience := time.NewTimer(grace - grace/slices*(slices-1))
	defer patience.Stop()
	for range slices {
		select {
		case r := <-back:
			return r.value, r.lost
		case <-patience.C:
			patience.Reset(grace / slices)
			runtime.Gosched()
		}
	}
	select {
	case r := <-back: // just so
		return r.value, r.lost
	default:
		return value, &loss{err: fmt.Errorf("%s %w for %v", in, ErrAbandoned, grace), abandoned: true, labels: labels}
	}
}
