package pacer

import (
	"math"
	"time"
)

// purse keeps tokens per minute, as [meter] does requests: a sliding window bounds
// what is booked in a minute, and a bucket spaces it. The bucket may go into debt,
// since otherwise no request larger than a burst could start. The next one waits
// until the debt is paid.
type purse struct {
	limit int64 // a minute
	burst float64

	epoch    time.Time
	bookings []booked // of the last minute, in order
	gone     uint64   // how many bookings were dropped from there
	sum      int64

	level float64 // of the bucket, at the time of
	asOf  time.Duration
}

type booked struct {
	at     time.Duration // since epoch
	tokens int64
}

// A booking is the tokens that a request has reserved.
type booking struct {
	number uint64 // among all bookings, from 1; zero: nothing is reserved
	tokens int64
}

// mostTokens is larger than any real number of tokens, and small enough for sums of
// many.
const mostTokens = 1 << 50

func newPurse(perMinute, burst int) *purse {
	return &purse{limit: min(int64(perMinute), mostTokens), burst: float64(burst), level: float64(burst)}
}

// fits reports whether a request of n tokens could ever be admitted.
func (p *purse) fits(n int64) bool { return n <= p.limit }

func (p *purse) perSecond() float64 { return float64(p.limit) / 60 }

// refresh brings the bucket and the bookings up to now.
func (p *purse) refresh(now time.Time) (at time.Duration) {
	if p.epoch.IsZero() {
		p.epoch = now
	}
	at = now.Sub(p.epoch)
	i := 0
	for i < len(p.bookings) && p.bookings[i].at <= at-time.Minute {
		p.sum -= p.bookings[i].tokens
		i++
	}
	p.bookings = p.bookings[i:]
	p.gone += uint64(i)
	if at > p.asOf {
		p.level = min(p.burst, p.level+(at-p.asOf).Seconds()*p.perSecond())
		p.asOf = at
	}
	return at
}

// opens returns when a request of n tokens fits. n is at most the limit.
func (p *purse) opens(now time.Time, n int64) time.Time {
	if n <= 0 {
		return now
	}
	at := p.refresh(now)
	opens := at
	for i, over := 0, p.sum+n-p.limit; over > 0 && i < len(p.bookings); i++ {
		over -= p.bookings[i].tokens
		opens = p.bookings[i].at + time.Minute
	}
	if lack := min(float64(n), p.burst) - p.level; lack > slack {
		// Rounded up: a nanosecond less would leave a tiny part missing.
		opens = max(opens, at+time.Duration(math.Ceil(lack/p.perSecond()*float64(time.Second))))
	}
	return now.Add(opens - at)
}

// slack is what rounding may leave a bucket short of.
const slack = 1e-6

// take books n tokens now.
func (p *purse) take(now time.Time, n int64) booking {
	if n <= 0 {
		return booking{}
	}
	at := p.refresh(now)
	p.bookings = append(p.bookings, booked{at, n})
	p.sum += n
	p.level -= float64(n)
	return booking{number: p.gone + uint64(len(p.bookings)), tokens: n}
}

// settle replaces what was reserved by what was used. Zero leaves it as it is, and
// negative means that nothing was used.
func (p *purse) settle(now time.Time, b booking, used int64) {
	if used == 0 {
		return
	}
	used = min(max(used, 0), mostTokens)
	at := p.refresh(now)
	more := used - b.tokens
	switch {
	case b.number > p.gone:
		// A booking keeps its time, however late it is settled.
		p.bookings[b.number-p.gone-1].tokens += more
		p.sum += more
	case more > 0:
		// The reservation has expired, but the excess has not been booked yet.
		p.bookings = append(p.bookings, booked{at, more})
		p.sum += more
	default:
		return // it was booked for a minute, as it should be
	}
	// A debt of more than a minute is forgiven: otherwise a server that reports
	// nonsense could block us for ever.
	p.level = max(-float64(p.limit), min(p.burst, p.level-float64(more)))
}

// booked returns what is booked in the last minute.
func (p *purse) booked(now time.Time) int64 {
	p.refresh(now)
	return p.sum
}
