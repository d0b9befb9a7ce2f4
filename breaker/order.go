package breaker

// mostOrdered bounds how many calls are remembered if passes are never settled. The
// oldest are dropped first.
const mostOrdered = 4096

// order is the running calls of one epoch, in the order in which they began. Numbers
// begin with 1.
type order struct {
	out  []bool // whether each call after gone is running
	head int    // how many of these, from the first on, are not
	gone int64  // how many calls were dropped
}

// begin returns the number of a call that begins.
func (o *order) begin() int64 {
	if len(o.out)-o.head == mostOrdered {
		o.out[o.head] = false
		o.trim()
	}
	o.out = append(o.out, true)
	return o.gone + int64(len(o.out))
}

// end notes that a call has ended.
func (o *order) end(number int64) {
	if i := number - o.gone - 1; i >= int64(o.head) && i < int64(len(o.out)) {
		o.out[i] = false
		o.trim()
	}
}

// before counts the running calls that began before the one of a number.
func (o *order) before(number int64) (n int) {
	for i, out := range o.out {
		if out && o.gone+int64(i)+1 < number {
			n++
		}
	}
	return n
}

// trim drops ended calls from the front, once they are half of all.
func (o *order) trim() {
	for o.head < len(o.out) && !o.out[o.head] {
		o.head++
	}
	if 2*o.head >= len(o.out) {
		o.gone += int64(o.head)
		o.out = o.out[:copy(o.out, o.out[o.head:])]
		o.head = 0
	}
}

func (o *order) clear() { o.out, o.head, o.gone = o.out[:0], 0, 0 }
