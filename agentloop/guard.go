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

// guarded runs user code on a goroutine of its own and comes back at the
// latest Grace after ctx has ended, with what the code returned, or with a
// loss. What abandoned code returns later is dropped.
//
// The loop of an agent runs user code in no other way, which is why it always
// comes to its end. For the same reason fn asks of an error what is to be known
// of it: its methods are user code too.
func guarded[T any](ctx context.Context, run *run, in string, fn func(context.Context) T) (value T, lost *loss) {
	type returned struct {
		value T
		lost  *loss
	}
	back := make(chan returned, 1) // room for one: late code must not block
	// Profiles and dumps tell with these whose goroutine it is. They are made
	// here: there are thousands of those goroutines, and their stacks are small.
	labels := callLabels{run.name(), in, strconv.FormatInt(run.group.calls.Add(1), 10)}
	x := running{labels, in, time.Now()}
	run.enters(x)
	labelled := pprof.WithLabels(ctx, labels.set())
	go func() {
		defer run.leaves(x)
		r := returned{lost: &loss{err: fmt.Errorf("%s %w", in, ErrExited)}}
		defer func() {
			// nil only if there was no panic, also for panic(nil).
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
	// In slices, not in one piece: each is also a turn of the scheduler. When
	// thousands of agents end at once on a busy machine, code that heard its
	// context may just not have had its turn when the time is up; slices come
	// late there too, and so the patience grows with the need.
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
