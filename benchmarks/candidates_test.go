package benchmarks

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

// A rule finds a limit. It sees what package pacer's own sees: for each try
// that ended the time of a typical answer at the pace of this one, how many
// were in flight when it began, and whether it was lost or refused. Locked by
// the guard around it.
type rule interface {
	limit() int
	ended(now time.Time, t float64, inFlight int, lost bool)
}

// limited is a guard with a rule and a queue in order of arrival.
type limited struct {
	mu       sync.Mutex
	rule     rule
	inFlight int
	line     []chan struct{}
	typical  float64
}

func ruled(r func() rule) func() guard {
	return func() guard { return &limited{rule: r(), typical: 60} }
}

func (g *limited) Enter(ctx context.Context, _ int) (trip, error) {
	turn := make(chan struct{})
	g.mu.Lock()
	g.line = append(g.line, turn)
	g.admitLocked()
	g.mu.Unlock()
	select {
	case <-turn:
		g.mu.Lock()
		defer g.mu.Unlock()
		return &limitedTrip{guard: g, inFlight: g.inFlight}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *limited) admitLocked() {
	for len(g.line) > 0 && g.inFlight < max(1, g.rule.limit()) {
		close(g.line[0])
		g.line = g.line[1:]
		g.inFlight++
	}
}

func (g *limited) Again(int, int, engine.Outcome) (time.Duration, bool) { return 0, false }

type limitedTrip struct {
	guard    *limited
	inFlight int
}

func (*limitedTrip) First(time.Duration) {}
func (*limitedTrip) Output(int)          {}

func (t *limitedTrip) Leave(o engine.Outcome) {
	g := t.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if o.Result.Useful() {
		g.typical += (float64(o.Tokens) - g.typical) / 50
	}
	took := o.Duration.Seconds()
	if o.Tokens > 1 {
		took = o.First.Seconds() + g.typical*(o.Duration-o.First).Seconds()/float64(o.Tokens-1)
	}
	g.rule.ended(time.Now(), took, t.inFlight, !o.Result.Useful())
	g.inFlight--
	g.admitLocked()
}

// windowed gathers what ends in a second, and at least ten of it, as most of
// the published rules do.
type windowed struct {
	began    time.Time
	n        int
	sum      float64
	inFlight int
	lost     bool
}

func (w *windowed) add(now time.Time, t float64, inFlight int, lost bool) (mean float64, most int, anyLost, full bool) {
	if w.began.IsZero() {
		w.began = now
	}
	w.n++
	w.sum += t
	w.inFlight = max(w.inFlight, inFlight)
	w.lost = w.lost || lost
	if w.n < 10 || now.Sub(w.began) < time.Second {
		return 0, 0, false, false
	}
	mean, most, anyLost = w.sum/float64(w.n), w.inFlight, w.lost
	*w = windowed{began: now}
	return mean, most, anyLost, true
}

// aimd adds one for each window that is used, and gives up a tenth when
// something is lost.
type aimd struct {
	windowed
	l float64
}

func (r *aimd) limit() int { return int(r.l) }

func (r *aimd) ended(now time.Time, t float64, inFlight int, lost bool) {
	if lost {
		r.l = max(1, r.l*0.9)
		r.windowed = windowed{began: now}
		return
	}
	if _, most, _, full := r.add(now, t, inFlight, lost); full && 2*most >= int(r.l) {
		r.l = min(200, r.l+1)
	}
}

// vegas takes what T is above the least it has seen for the length of the
// server's queue.
type vegas struct {
	windowed
	l, base float64
	seen    int
}

func (r *vegas) limit() int { return int(r.l) }

func (r *vegas) ended(now time.Time, t float64, inFlight int, lost bool) {
	t, most, lost, full := r.add(now, t, inFlight, lost)
	if !full {
		return
	}
	r.seen += most
	if r.base == 0 || t < r.base || r.seen > 30*int(r.l) {
		r.base, r.seen = t, 0
		return
	}
	step := max(1, math.Log10(r.l))
	queue := math.Ceil(r.l * (1 - r.base/t))
	switch {
	case lost:
		r.l -= step
	case 2*most < int(r.l):
		return
	case queue <= step:
		r.l += 6 * step
	case queue < 3*step:
		r.l += step
	case queue > 6*step:
		r.l -= step
	}
	r.l = min(max(1, r.l), 1000)
}

// gradient compares T lately with T over a long time.
type gradient struct {
	windowed
	l, long float64
}

func (r *gradient) limit() int { return int(r.l) }

func (r *gradient) ended(now time.Time, t float64, inFlight int, lost bool) {
	t, most, _, full := r.add(now, t, inFlight, lost)
	if !full {
		return
	}
	if r.long == 0 {
		r.long = t
	}
	r.long += (t - r.long) * 2 / 601
	if r.long/t > 2 {
		r.long *= 0.95
	}
	if float64(most) < r.l/2 {
		return
	}
	g := min(max(1.5*r.long/t, 0.5), 1)
	r.l = r.l*0.8 + (r.l*g+4)*0.2
	r.l = min(max(1, r.l), 200)
}

// product is the bandwidth-delay product, as BBR has it: the highest rate of
// useful answers of the last ten windows times the least T, and now and then
// a quarter more or less of it to see whether that is still so.
type product struct {
	windowed
	l, least float64
	leastAt  time.Time
	rates    []float64
	useful   int
	since    time.Time
	phase    int
}

func (r *product) limit() int { return int(math.Round(r.l)) }

func (r *product) ended(now time.Time, t float64, inFlight int, lost bool) {
	if r.since.IsZero() {
		r.since = now
	}
	if !lost {
		r.useful++
		if r.least == 0 || t < r.least || now.Sub(r.leastAt) > 30*time.Second {
			r.least, r.leastAt = t, now
		}
	}
	if _, _, _, full := r.add(now, t, inFlight, lost); !full {
		return
	}
	if took := now.Sub(r.since).Seconds(); took > 0 {
		r.rates = append(r.rates, float64(r.useful)/took)
		r.rates = r.rates[max(0, len(r.rates)-10):]
	}
	r.useful, r.since = 0, now
	best := 0.0
	for _, rate := range r.rates {
		best = max(best, rate)
	}
	gains := []float64{1.25, 0.75, 1, 1, 1, 1, 1, 1}
	r.phase = (r.phase + 1) % len(gains)
	r.l = min(max(2, 2*best*r.least*gains[r.phase]), 1000)
}

var candidates = []policy{
	{"AIMD, start 20", ruled(func() rule { return &aimd{l: 20} })},
	{"AIMD, start 8", ruled(func() rule { return &aimd{l: 8} })},
	{"Vegas, start 8", ruled(func() rule { return &vegas{l: 8} })},
	{"Gradient2, start 8", ruled(func() rule { return &gradient{l: 8} })},
	{"rate times least T (BBR), start 8", ruled(func() rule { return &product{l: 8} })},
}
