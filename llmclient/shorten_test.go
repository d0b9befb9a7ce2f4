package llmclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestShortenLeavesALimitThatWasSet(t *testing.T) {
	byDefault := clockDefaults[iFirstOutput]
	for name, tc := range map[string]struct {
		set            Clock
		suspect, limit time.Duration
	}{
		"a default is shortened":             {Clock{}, 15 * time.Second, 30 * time.Second},
		"a limit that was set stays":         {Clock{Limit: 3 * time.Minute}, 30 * time.Second, 3 * time.Minute},
		"never stays never":                  {Clock{Limit: -1}, 30 * time.Second, 0},
		"not below a suspect that was set":   {Clock{Suspect: time.Minute}, time.Minute, time.Minute},
		"a suspect that was set stays":       {Clock{Suspect: 10 * time.Second}, 10 * time.Second, 30 * time.Second},
		"a suspect that is off stays so":     {Clock{Suspect: -1}, 0, 30 * time.Second},
		"a shorter limit that was set stays": {Clock{Limit: 5 * time.Second}, 2500 * time.Millisecond, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := tc.set.resolve(byDefault)
			b.shorten(30 * time.Second)
			assert.Equal(t, tc.limit, b.limit, "limit")
			assert.Equal(t, tc.suspect, b.suspect, "suspect")
			b.lengthen(time.Hour)
			assert.Equal(t, tc.limit, b.limit, "limit, once it should be lengthened")
		})
	}
}
