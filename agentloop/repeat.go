package agentloop

import (
	"encoding/json"
	"hash/maphash"
)

// repeats watches whether rounds still bring something new.
//
// A call is a repeat if the same tool gave the same result for the same
// arguments before, and an echo if it gave the same result for whatever
// arguments. A round is what the best of its calls is. Only rows of rounds
// count, and anything new ends a row, so cycles of any length are seen and
// rereading a few things is not. Echoes get more patience: a tool may well
// answer every call with "ok".
type repeats struct {
	limit int // negative: off
	seed  maphash.Seed
	seen  map[uint64]struct{}
	round news // of the round under way

	repeats int // rounds in a row
	echoes  int // rounds in a row, repeats included
}

// news says how new a call is.
type news int

const (
	nothing news = iota // no call that counts
	repeat
	echo
	fresh
)

// echoPatience is how many echoes weigh as much as one repeat.
const echoPatience = 3

func newRepeats(limit int) repeats {
	return repeats{limit: limit, seed: maphash.MakeSeed(), seen: make(map[uint64]struct{})}
}

// add notes a call of the round.
func (r *repeats) add(tool string, args json.RawMessage, result string) news {
	var h maphash.Hash
	h.SetSeed(r.seed)
	h.WriteString(tool)
	h.WriteByte(0)
	h.WriteString(result)
	knownResult := r.known(h.Sum64())
	h.WriteByte(0)
	h.Write(canonical(args))
	knownCall := r.known(h.Sum64())
	n := fresh
	switch {
	case knownCall:
		n = repeat
	case knownResult:
		n = echo
	}
	r.round = max(r.round, n)
	return n
}

// known reports whether the key was there before, and adds it.
func (r *repeats) known(key uint64) bool {
	_, known := r.seen[key]
	r.seen[key] = struct{}{}
	return known
}

// turn ends the round.
func (r *repeats) turn() {
	switch r.round {
	case repeat:
		r.repeats++
		r.echoes++
	case echo:
		r.repeats = 0
		r.echoes++
	case fresh:
		r.repeats, r.echoes = 0, 0
	}
	r.round = nothing
}

// over reports whether the limit is reached.
func (r *repeats) over() bool {
	return r.limit > 0 && (r.repeats >= r.limit || r.echoes >= echoPatience*r.limit)
}

// near reports whether half of the way to the limit is gone.
func (r *repeats) near() bool {
	return r.limit > 0 && (2*r.repeats >= r.limit || 2*r.echoes >= echoPatience*r.limit)
}
