package pacer

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// meter keeps requests per minute with a token bucket and a sliding window. The
// bucket spaces the starts, but alone would allow burst + limit of them in a minute.
// The window allows limit in any minute, but alone all at once. Together they are
// smooth and exact. A bucket alone would have to be refilled slower than limit.
type meter struct {
	bucket *rate.Limiter
	window window

	// The first in the queue waits for a token that is reserved already. The
	// reservation belongs to the place, whichever waiter is there.
	held    rate.Reservation
	holding bool
}

func newMeter(perMinute, burst int) *meter {
	perSecond := rate.Limit(float64(perMinute) / 60)
	return &meter{bucket: rate.NewLimiter(perSecond, burst), window: window{limit: perMinute}}
}

// opens returns when the next request may start. If the window allows it, a token of
// the bucket is held for it until spend or unhold.
func (m *meter) opens(now time.Time) time.Time {
	if at := m.window.opens(now); at.After(now) {
		return at
	}
	if !m.holding {
		m.held, m.holding = *m.bucket.ReserveN(now, 1), true
	}
	return now.Add(m.held.DelayFrom(now))
}

// spend books a start now, with the token held by opens.
func (m *meter) spend(now time.Time) time.Duration {
	m.holding = false
	return m.window.add(now)
}

// unhold gives the held token back.
func (m *meter) unhold(now time.Time) {
	if m.holding {
		m.held.CancelAt(now)
		m.holding = false
	}
}

// refund takes back the start at an offset.
func (m *meter) refund(now time.Time, at time.Duration) {
	m.unhold(now)
	m.window.remove(at)
	// A Reservation cannot be cancelled once its time has passed. Taking -1 token
	// gives one back, and the bucket does not overflow.
	m.bucket.AllowN(now, -1)
}

// earliest is a lower bound for when a caller with so many others ahead starts.
func (m *meter) earliest(now time.Time, ahead int) time.Time {
	at := m.window.earliest(now, ahead)
	need := float64(ahead+1) - m.bucket.TokensAt(now)
	if m.holding {
		need-- // the first one's token is reserved already
	}
	if need > 0 {
		if t := now.Add(seconds(need / float64(m.bucket.Limit()))); t.After(at) {
			return t
		}
	}
	return at
}

// window holds the starts of the last minute, as offsets from the first of all.
// A start leaves it a minute later to the nanosecond.
type window struct {
	limit  int
	epoch  time.Time
	starts []time.Duration // in order
}

// opens returns when one more start fits.
func (w *window) opens(now time.Time) time.Time { return w.earliest(now, 0) }

// earliest returns when one more start fits after so many others.
func (w *window) earliest(now time.Time, ahead int) time.Time {
	w.forget(now)
	// That start comes a minute after the one limit starts before it. If that is
	// one of those ahead, the same holds for it.
	minutes, ahead := ahead/w.limit, ahead%w.limit
	at := now
	if i := len(w.starts) + ahead - w.limit; i >= 0 {
		at = w.epoch.Add(w.starts[i] + time.Minute)
	}
	return at.Add(time.Duration(minutes) * time.Minute)
}

func (w *window) add(now time.Time) time.Duration {
	if w.epoch.IsZero() {
		w.epoch = now
	}
	at := now.Sub(w.epoch)
	w.starts = append(w.starts, at)
	return at
}

func (w *window) remove(at time.Duration) {
	if i, ok := slices.BinarySearch(w.starts, at); ok {
		w.starts = slices.Delete(w.starts, i, i+1)
	}
}

// forget drops starts that are a minute old.
func (w *window) forget(now time.Time) {
	old := now.Sub(w.epoch) - time.Minute
	i := 0
	for i < len(w.starts) && w.starts[i] <= old {
		i++
	}
	w.starts = w.starts[i:]
}
