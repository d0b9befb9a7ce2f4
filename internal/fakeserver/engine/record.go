package engine

import (
	"maps"
	"slices"
	"time"
)

// A Record is what an engine has been good for: over time, and by agent. A
// completion is useful if its client was still there at its end.
type Record struct {
	Bin    time.Duration
	Bins   []Tally // of the time from the start
	Total  Tally
	Agents map[string]int // useful completions
}

// maxBins bounds the length of a record. What happens after that is in the
// last bin.
const maxBins = 1 << 20

// A Tally counts requests by how they ended, and the tokens of their answers.
type Tally struct {
	Useful       int
	Refused      int // 503
	Limited      int // 429
	Broken       int // also 400
	Left         int // given up by their client
	UsefulTokens int
	WastedTokens int // of answers that were not whole, or that nobody heard
}

// Ended returns how many requests have ended.
func (t Tally) Ended() int { return t.Useful + t.Refused + t.Limited + t.Broken + t.Left }

func newRecord(bin time.Duration) Record {
	return Record{Bin: bin, Agents: make(map[string]int)}
}

func (r *Record) add(now time.Duration, call *Call, how Result) {
	i := int(min(now/r.Bin, maxBins-1))
	if lack := i + 1 - len(r.Bins); lack > 0 {
		r.Bins = append(r.Bins, make([]Tally, lack)...)
	}
	bin := &r.Bins[i]
	for _, t := range []*Tally{bin, &r.Total} {
		switch how {
		case Stopped, Length:
			t.Useful++
			t.UsefulTokens += call.made
			continue
		case Refused, Unready:
			t.Refused++
		case Limited, NoQuota:
			t.Limited++
		case Aborted, Left:
			t.Left++
		default:
			t.Broken++
		}
		t.WastedTokens += call.made
	}
	if how.Useful() {
		r.Agents[call.Agent]++
	}
}

// Record returns what the engine has been good for so far.
func (c *Core) Record() Record {
	r := c.record
	r.Bins = slices.Clone(r.Bins)
	r.Agents = maps.Clone(r.Agents)
	return r
}
