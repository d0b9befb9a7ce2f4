package main

import (
	"strings"

	"github.com/neverhang/neverhang/llmclient"
)

// clockLimits returns the limits that are set, by the clock's name.
func clockLimits(c *llmclient.Clocks) map[string]string {
	out := make(map[string]string)
	for _, k := range namedClocks(c) {
		switch {
		case k.clock.Limit > 0:
			out[string(k.name)] = k.clock.Limit.String()
		case k.clock.Limit < 0:
			out[string(k.name)] = "off"
		}
	}
	return out
}

// clockLine writes the same in one line, in the order of a call's phases.
func clockLine(c *llmclient.Clocks) string {
	limits := clockLimits(c)
	var out []string
	for _, k := range namedClocks(c) {
		if limit, ok := limits[string(k.name)]; ok {
			out = append(out, string(k.name)+" "+limit)
		}
	}
	return strings.Join(out, ", ")
}

type namedClock struct {
	name  llmclient.ClockName
	clock llmclient.Clock
}

func namedClocks(c *llmclient.Clocks) []namedClock {
	return []namedClock{
		{llmclient.ClockQueue, c.Queue},
		{llmclient.ClockConnect, c.Connect},
		{llmclient.ClockSend, c.Send},
		{llmclient.ClockFirstOutput, c.FirstOutput},
		{llmclient.ClockGap, c.Gap},
		{llmclient.ClockSilence, c.Silence},
		{llmclient.ClockAttempt, c.Attempt},
		{llmclient.ClockEnd, c.End},
		{llmclient.ClockCall, c.Call},
	}
}
