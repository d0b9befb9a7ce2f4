package llmclient

import "time"

// A moment is a time in the life of an attempt: the nanoseconds since its start, plus
// one. Meters use them because a time.Time is three times as large, and thousands of
// attempts may wait at once.
type moment time.Duration

const (
	never   moment = 0
	atStart moment = 1 // of the attempt
)

func (x moment) Sub(y moment) time.Duration { return time.Duration(x - y) }
func (x moment) Add(d time.Duration) moment { return x + moment(d) }

// moment returns the moment at a time.
func (m *meter) moment(at time.Time) moment { return atStart.Add(at.Sub(m.started)) }

// time returns the time at a moment, or the zero time for never.
func (m *meter) time(x moment) time.Time {
	if x == never {
		return time.Time{}
	}
	return m.started.Add(x.Sub(atStart))
}
