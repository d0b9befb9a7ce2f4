package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A happening is the incident of a run: what is played, when, and whether it ends by
// itself.
type happening struct {
	name   string
	from   time.Duration // into the run
	until  time.Duration // 0: it does not end
	always bool          // it is how the engine is, from the beginning to the end
	start  time.Time     // of the engine
}

// announce says when the incident comes, and how the run ends.
func (i *happening) announce() string {
	switch {
	case i.always:
		return i.name + " is there from the beginning, and stays"
	case i.until == 0:
		return fmt.Sprintf("%s comes %s into the run, and does not heal by itself", i.name, i.from)
	}
	return fmt.Sprintf("%s comes %s into the run, and heals by itself after %s; what it left behind may take longer", i.name, i.from, i.until-i.from)
}

// watch says when the incident begins and ends, until ctx ends.
func (i *happening) watch(ctx context.Context, note func(string, ...any)) {
	if i.always || !sleepUntil(ctx, i.start.Add(i.from)) {
		return
	}
	note("the incident begins: %s", i.name)
	if i.until > 0 && sleepUntil(ctx, i.start.Add(i.until)) {
		note("the incident is over: %s", i.name)
	}
}

func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// verdict summarises what the doctor said of the incident. The run ended at the given
// time; samples were taken at the given distance.
func (i *happening) verdict(said []saying, ended time.Time, interval time.Duration) string {
	began := i.start.Add(i.from)
	var list []string
	for _, s := range said {
		list = append(list, fmt.Sprintf("%q after %s", s.state, seconds(s.at.Sub(began))))
	}
	switch {
	case len(list) > 0:
		return strings.Join(list, ", ")
	case ended.Before(began):
		return "nothing: the run ended before it began"
	case i.until > 0 && i.until-i.from < 2*interval:
		return "nothing: it was over before the second sample"
	case ended.Sub(began) < 2*interval:
		return "nothing: the run ended before the second sample"
	}
	return "nothing: calls were answered all the while, or too few were made to tell"
}
