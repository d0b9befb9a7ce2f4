package health

import (
	"time"
)

// A budget is how many questions may be asked in a minute. All may be asked at
// once.
type budget struct {
	perMinute int
	left      float64
	at        time.Time
}

func (b *budget) take(now time.Time) bool {
	if b.perMinute < 0 {
		return true
	}
	full := float64(b.perMinute)
	if b.at.IsZero() {
		b.left = full
	} else {
		b.left = min(full, b.left+now.Sub(b.at).Minutes()*full)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
