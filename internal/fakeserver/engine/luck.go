package engine

import (
	"math"
)

// mix is a bijection that leaves no trace of order in its result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashText is FNV-1a, mixed: the same in every process.
func hashText[T ~string | ~[]byte](s T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// luck returns a number from 0 up to 1 that belongs to the seed, the content
// of a call and a purpose: what a model makes of a prompt, whenever it comes.
func (c *Core) luck(call *Call, purpose string) float64 {
	return unit(mix(c.cfg.Seed^mix(call.Key)) ^ hashText(purpose))
}

// fate is luck that a request sent again does not share with the first: what
// loses one of them has not read it.
func (c *Core) fate(call *Call, purpose string) float64 {
	return unit(mix(c.cfg.Seed^mix(call.order+call.nth)) ^ hashText(purpose))
}

// count numbers the arrivals of requests that are alike, if that decides
// anything.
func (c *Core) count(call *Call) {
	if c.arrivals != nil {
		call.nth = c.arrivals[call.order]
		c.arrivals[call.order]++
	}
}

func unit(x uint64) float64 { return float64(mix(x)>>11) / (1 << 53) }

// draw returns the length of an answer.
func (c *Core) draw(call *Call) int {
	a := c.cfg.Answers
	u := max(c.luck(call, "length"), 1e-12)
	v := c.luck(call, "length too")
	z := math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
	n := math.Round(float64(a.Mean) * math.Exp(a.Spread*z))
	return int(min(max(n, 1), float64(a.Most)))
}
