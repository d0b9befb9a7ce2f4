package fakeserver

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A kind is something that may happen to a request, with a name.
type kind interface{ label() string }

// rates say how often each kind happens, in the order of the kinds.
type rates[K kind] struct {
	kinds []K
	share []float64
}

// parseRates reads a list such as "hang=0.1,stall=0.05". Entries that other
// takes are not looked at further.
func parseRates[K kind](what, spec string, kinds []K, also string, other func(name, value string) (bool, error)) (rates[K], error) {
	r := rates[K]{kinds: kinds, share: make([]float64, len(kinds))}
	fail := func(format string, args ...any) (rates[K], error) {
		return rates[K]{}, fmt.Errorf("fakeserver: "+what+": "+format, args...)
	}
	if spec = strings.TrimSpace(spec); spec == "" || spec == "none" {
		return rates[K]{}, nil
	}
	seen := make(map[string]bool)
	sum := 0.0
	for entry := range strings.SplitSeq(spec, ",") {
		entry = strings.TrimSpace(entry)
		name, value, found := strings.Cut(entry, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if taken, err := other(name, value); err != nil {
			return fail("%q: %w", entry, err)
		} else if taken {
			continue
		}
		i := slices.IndexFunc(kinds, func(k K) bool { return k.label() == name })
		if i < 0 {
			return fail("%q is not known; there are %s%s", name, strings.Join(labels(kinds), ", "), also)
		}
		if seen[name] {
			return fail("%q is there twice", name)
		}
		seen[name] = true
		if !found {
			return fail("%q has no rate, want %s=0.1 for one in ten", entry, name)
		}
		share, err := strconv.ParseFloat(value, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return fail("%q has the rate %q, want a number from 0 to 1", name, value)
		}
		r.share[i] = share
		sum += share
	}
	if sum > 1+1e-9 {
		return fail("the rates add up to %.3g, want at most 1", sum)
	}
	return r, nil
}

func labels[K kind](kinds []K) []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = k.label()
	}
	return out
}

// entries tells the rates as they can be parsed, those of zero left out.
func (r rates[K]) entries() []string {
	var out []string
	for i, share := range r.share {
		if share > 0 {
			out = append(out, r.kinds[i].label()+"="+strconv.FormatFloat(share, 'g', -1, 64))
		}
	}
	return out
}

// rate returns how often the kind of that name happens.
func (r rates[K]) rate(name string) float64 {
	for i, share := range r.share {
		if r.kinds[i].label() == name {
			return share
		}
	}
	return 0
}

// pick draws a kind; ok is false if nothing happens.
func (r rates[K]) pick(luck *rand.Rand) (k K, ok bool) {
	x := luck.Float64()
	for i, share := range r.share {
		if x -= share; x < 0 {
			return r.kinds[i], true
		}
	}
	return k, false
}

// luckOf returns the random numbers that belong to a seed, a name and a
// number: always the same for the same three.
func luckOf(seed uint64, name string, n int) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()+uint64(n)*0x9e3779b97f4a7c15))
}
