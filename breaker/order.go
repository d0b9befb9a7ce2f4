package breaker

// mostOrdered bounds what is remembered of the order, should passes never be
// settled. The oldest go first.
const mostOrdered = 4096

// order is the calls of one epoch that are out, in the order in which they began.
// Numbers begin with 1.
type order struct {
	out  []bool // of the calls after gone, whether each is out
	head int    // how many of these, from the first on, are not
	gone int64
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

// end is told that a call has ended.
func (o *order) end(number int64) {
	if i := number - o.gone - 1; i >= int64(o.head) && i < int64(len(o.out)) {
		o.out[i] = false
		o.trim()
	}
}

// before counts the calls that are out and began before that of a number.
func (o *order) before(number int64) (n int) {
	for i, out := range o.out {
		if out && o.gone+int64(i)+1 < number {
			n++
		}
	}
	return n
}

// trim drops those from the first on that are not out, from time to time.
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
