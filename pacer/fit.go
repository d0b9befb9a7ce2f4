package pacer

import (
	"math"
	"time"
)

// fit is a line through the points (x, y), of which old ones fade. The slope is
// that at one moment: what y does over time by itself, while the server slows
// down or recovers, is taken out of it, or a limit that grows while a server
// recovers would look like the reason for that.
type fit struct {
	origin time.Duration // of the times t

	w, x, y, t         float64 // sums
	xx, xy, xt, yt, tt float64
	slope              float64
	unsure             float64 // standard error of the slope
	noise              float64 // mean square of what points are off
}

const (
	doubt      = 0.001 // weighs like a variance of log n for the slope unseen
	doubtTime  = 0.1   // likewise for a y that does not change with time
	unseen     = 0.9   // the slope until something is seen of it: near the top
	fewToTrust = 5
)

// known reports whether there are points enough to expect anything.
func (f *fit) known() bool { return f.w > fewToTrust }

// learn adds a point at the time t to about as many as memory says.
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

// isBelow reports whether the slope is less than that, beyond its standard error.
func (f *fit) isBelow(slope float64) bool { return f.known() && f.slope+f.unsure < slope }

// expect is what y should be at x.
func (f *fit) expect(x float64) float64 {
	return f.y/f.w + f.slope*(x-f.x/f.w)
}
