package pacer

import (
	"math"
	"time"
)

// fit is a line through points (x, y), in which old ones fade. Changes of y over
// time are taken out of the slope: a server that recovers while the limit grows must
// not look as if it got faster because of that.
type fit struct {
	origin time.Duration // of the times t

	w, x, y, t         float64 // sums
	xx, xy, xt, yt, tt float64
	slope              float64
	unsure             float64 // standard error of the slope
	noise              float64 // mean square of how far points are off the line
}

const (
	doubt      = 0.001 // weight of the slope unseen, as a variance of log n
	doubtTime  = 0.1   // likewise for no change with time
	unseen     = 0.9   // the slope before any is measured: near the top
	fewToTrust = 5
)

// known reports whether there are enough points to expect a y.
func (f *fit) known() bool { return f.w > fewToTrust }

// learn adds a point at the time t. About as many points as memory count.
func (f *fit) learn(x, y, t, memory float64) {
	if f.known() {
		off := y - f.expect(x)
		f.noise += (off*off - f.noise) / min(f.w, 30)
	}
	keep := 1 - 1/memory
	f.w = f.w*keep + 1
	f.x = f.x*keep + x
	f.y = f.y*keep + y
	f.t = f.t*keep + t
	f.xx = f.xx*keep + x*x
	f.xy = f.xy*keep + x*y
	f.xt = f.xt*keep + x*t
	f.yt = f.yt*keep + y*t
	f.tt = f.tt*keep + t*t

	mx, my, mt := f.x/f.w, f.y/f.w, f.t/f.w
	xx := f.xx/f.w - mx*mx + doubt
	xy := f.xy/f.w - mx*my + doubt*unseen
	xt := f.xt/f.w - mx*mt
	yt := f.yt/f.w - my*mt
	tt := f.tt/f.w - mt*mt + doubtTime
	f.slope = min(max((xy*tt-yt*xt)/(xx*tt-xt*xt), 0), 2)
	f.unsure = math.Sqrt(f.noise / (f.w * (xx - xt*xt/tt)))
}

// isBelow reports whether the slope is below a value by more than its standard
// error.
func (f *fit) isBelow(slope float64) bool { return f.known() && f.slope+f.unsure < slope }

// expect is what y should be at x.
func (f *fit) expect(x float64) float64 {
	return f.y/f.w + f.slope*(x-f.x/f.w)
}
