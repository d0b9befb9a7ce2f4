package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBudget(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	type ask struct {
		after time.Duration // since the start
		want  bool
	}
	for name, tt := range map[string]struct {
		perMinute int
		asks      []ask
	}{
		"all at once, and no more": {3, []ask{{0, true}, {0, true}, {0, true}, {0, false}}},
		"one comes back in its share of a minute": {3, []ask{
			{0, true}, {0, true}, {0, true}, {19 * time.Second, false}, {20*time.Second + time.Millisecond, true}, {21 * time.Second, false},
		}},
		"what was not used in an hour is a minute's worth": {2, []ask{{0, true}, {time.Hour, true}, {time.Hour, true}, {time.Hour, false}}},
		"any number": {-1, []ask{{0, true}, {0, true}, {0, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := budget{perMinute: tt.perMinute}
			for i, a := range tt.asks {
				assert.Equal(t, a.want, b.take(start.Add(a.after)), "question %d", i)
			}
		})
	}
}
