package llmclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAMachineThatHasSlept(t *testing.T) {
	for name, tc := range map[string]struct {
		awake, passed time.Duration
		want          bool
	}{
		"it has not":                      {time.Hour, time.Hour, false},
		"for a night":                     {time.Second, 8 * time.Hour, true},
		"for as long as counts":           {time.Minute, time.Minute + leastSleep, true},
		"for less than counts":            {time.Minute, time.Minute + leastSleep - 1, false},
		"the time of day was set forward": {time.Minute, time.Hour, true},
		"the time of day was set back":    {time.Hour, -time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			var a asleep
			mono := time.Now()
			wall := mono.Round(0)
			assert.False(t, a.woke(mono, wall), "before there is anything to compare with")
			mono, wall = mono.Add(tc.awake), wall.Add(tc.passed)
			assert.Equal(t, tc.want, a.woke(mono, wall))
			assert.False(t, a.woke(mono.Add(time.Second), wall.Add(time.Second)), "told once")
		})
	}
}
