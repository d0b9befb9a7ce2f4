package agentloop

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// repeats watches whether rounds still bring something new. docs/repeats.md has the
// rules as a table.
//
// A call is a repeat if the same tool gave the same result for the same arguments
// before. It is an echo if the result is known from other arguments, or new only in
// words with digits (numbers, times, ids), which change by themselves. Long new
// arguments are work: with a new result they are news, with a known one they are
// unproved, since a tool may answer every call with "ok". A call that counts for a
// step is news. A failed call is judged by failure.
//
// A round is as new as the newest of its calls. Rounds are counted in a row, and news
// ends all rows. So cycles of any length up to the window are seen, and an agent may
// reread a few things. Echoes get three times the patience of repeats, unproved work
// nine times.
//
//	rounds in a row   below half   half on     three quarters on   all
//	what is done      nothing      a warning   calls are blocked   stalled
type repeats struct {
	limit  int // negative: off
	window int // calls; what is older is forgotten
	seed   maphash.Seed
	seen   map[uint64]int // when a key was seen last, in calls
	calls  int            // so far
	faded  int            // calls up to here are out of the model's sight
	worked int            // the last call that was new and succeeded
	round  news           // of the round under way

	repeats int                 // rounds in a row
	echoes  int                 // rounds in a row, repeats included
	works   int                 // rounds in a row without proof of anything new, echoes included
	row     []RepeatedCall      // of the row, the first few kinds
	at      map[uint64]int      // where a call stands in row
	tools   map[string]struct{} // that the row's calls are of
}

// news says how new a call is.
type news int

const (
	nothing news = iota // no call that counts
	repeat
	echo
	unproved // work, but for what its result says
	fresh
)

const (
	// echoPatience is how many echoes weigh as much as one repeat, and workPatience how
	// many rounds of unproved work.
	echoPatience = 3
	workPatience = 3 * echoPatience
	// longArguments is the size in bytes from which arguments are content: to send known
	// content again is no news, even if the result is new ("now 17 paragraphs"). Shorter
	// arguments say which thing to look at again.
	longArguments = 64
	// workArguments is the size in bytes from which new arguments are work: a section of
	// a text, not one more way to ask for the same.
	workArguments = 128
	// maxEvidence bounds the kinds of calls kept as evidence.
	maxEvidence = 8
)

func newRepeats(limit, window int) repeats {
	return repeats{limit: min(limit, endless), window: min(window, endless)} // maps when there is something for them
}

// signature is the key of a call without its result.
func (r *repeats) signature(tool string, args []byte) uint64 {
	return r.key(tool, "arguments", args, nil)
}

// add notes a call of the round.
func (r *repeats) add(tool string, raw json.RawMessage, result string, failed bool) news {
	if r.seen == nil {
		r.seed = maphash.MakeSeed()
		r.seen, r.at, r.tools = make(map[uint64]int), make(map[uint64]int), make(map[string]struct{})
	}
	args := canonical(raw)
	r.calls++
	sig := r.signature(tool, args)
	last, called := r.seen[sig] // before it is known
	knownArgs := r.known(sig)
	var n news
	if failed {
		fixed := called && r.worked > last // something was done about it
		n = r.failure(tool, args, result, knownArgs, fixed)
	} else {
		n = r.success(tool, args, result, knownArgs)
		if knownArgs == never {
			r.worked = r.calls
		}
	}
	r.round = max(r.round, n)
	r.keep(sig, tool, args)
	return n
}

// success says how new a successful call is.
func (r *repeats) success(tool string, args []byte, result string, knownArgs sight) news {
	knownResult := r.known(r.key(tool, "result", []byte(result), nil))
	knownWords := r.known(r.wordsKey(tool, args, result))
	switch knownCall := r.known(r.key(tool, "call", []byte(result), args)); {
	case knownCall == inSight:
		return repeat
	case knownArgs == never && len(args) >= workArguments && knownResult == inSight:
		return unproved
	case knownArgs == never && len(args) >= workArguments:
		return fresh
	case knownCall == outOfSight, knownResult == inSight, knownWords == inSight, knownArgs == inSight && len(args) >= longArguments:
		return echo
	}
	return fresh
}

// failure says how new a failed call is. It is news only if the error has new words
// (times, numbers and ids change by themselves) and there was work: its arguments are
// new and long, or a new call succeeded since the same call was made last, as between
// two runs of a compiler.
func (r *repeats) failure(tool string, args []byte, text string, knownArgs sight, fixed bool) news {
	knownWords := r.known(r.key(tool, "words", wordsOf(text), nil))
	knownCall := r.known(r.key(tool, "failed", nil, args))
	switch {
	case knownWords == never && (fixed || knownArgs == never && len(args) >= workArguments):
		return fresh
	case knownCall == inSight:
		return repeat
	}
	return echo
}

// wordsOf returns the words of a text without those that contain a digit: times,
// numbers and ids.
func wordsOf(text string) []byte {
	words := make([]byte, 0, len(text)+1)
	begin, digits := 0, false // of the word under way
	end := func() {
		switch {
		case digits:
			words = words[:begin]
		case len(words) > begin:
			words = append(words, ' ')
		}
		begin, digits = len(words), false
	}
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			words = append(words, byte(c))
		case '0' <= c && c <= '9':
			digits = true
		case c < utf8.RuneSelf:
			end()
		case unicode.IsLetter(c):
			words = utf8.AppendRune(words, c)
		case unicode.IsDigit(c):
			digits = true
		default:
			end()
		}
	}
	end()
	return words
}

// wordsKey is the key of a call with the words of its result.
func (r *repeats) wordsKey(tool string, args []byte, result string) uint64 {
	return r.key(tool, "said", wordsOf(result), args)
}

// key hashes a fact about a call.
func (r *repeats) key(tool, fact string, a, b []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	h.WriteString(tool)
	h.WriteByte(0)
	h.WriteString(fact)
	h.WriteByte(0)
	h.Write(a)
	h.WriteByte(0)
	h.Write(b)
	return h.Sum64()
}

// keep notes a call as evidence of the row.
func (r *repeats) keep(sig uint64, tool string, args []byte) {
	r.tools[tool] = struct{}{}
	if i, ok := r.at[sig]; ok {
		r.row[i].Times++
		return
	}
	if len(r.row) < maxEvidence {
		r.at[sig] = len(r.row)
		r.row = append(r.row, RepeatedCall{Tool: tool, Arguments: bounded(string(args), 200), Times: 1})
	}
}

// sight says whether something was seen before, and whether the conversation still
// holds it.
type sight int

const (
	never sight = iota
	outOfSight
	inSight
)

// known returns how well the key is known, and notes it.
func (r *repeats) known(key uint64) sight {
	at, ok := r.seen[key]
	r.seen[key] = r.calls
	if len(r.seen) > 8*r.window {
		for k, at := range r.seen {
			if r.calls-at > r.window {
				delete(r.seen, k)
			}
		}
	}
	switch {
	case !ok || r.calls-at > r.window:
		return never
	case at <= r.faded:
		return outOfSight
	}
	return inSight
}

// fade notes that old results were taken out of the conversation: reading them again
// is justified.
func (r *repeats) fade() { r.faded = r.calls }

// turn ends the round.
func (r *repeats) turn() {
	switch r.round {
	case repeat:
		r.repeats++
		r.echoes++
		r.works++
	case echo:
		r.repeats = 0
		r.echoes++
		r.works++
	case unproved:
		r.repeats, r.echoes = 0, 0
		r.works++
	case fresh:
		r.repeats, r.echoes, r.works, r.row = 0, 0, 0, nil
		clear(r.at)
		clear(r.tools)
	}
	r.round = nothing
}

// past reports whether num/den of the way to the limit are gone.
func (r *repeats) past(num, den int) bool {
	return r.limit > 0 && (den*r.repeats >= num*r.limit || den*r.echoes >= num*echoPatience*r.limit)
}

// toil reports whether num/den of the patience with unproved work is gone.
func (r *repeats) toil(num, den int) bool {
	return r.limit > 0 && den*r.works >= num*workPatience*r.limit
}

// over reports whether the limit is reached, near whether a warning is due. Unproved
// work gets a late warning and is not blocked: it may be real work.
func (r *repeats) over() bool { return r.past(1, 1) || r.toil(1, 1) }
func (r *repeats) near() bool { return r.past(1, 2) || r.toil(3, 4) }

// blocks reports whether a call must not run: the row is long, and the call belongs
// to it, or at least its tool does.
func (r *repeats) blocks(tool string, raw json.RawMessage) bool {
	if !r.past(3, 4) {
		return false
	}
	if 4*r.repeats >= 3*r.limit {
		_, known := r.at[r.signature(tool, canonical(raw))]
		return known
	}
	_, known := r.tools[tool]
	return known
}

// block notes that a call was blocked, which counts as a repeat.
func (r *repeats) block() { r.round = max(r.round, repeat) }

// end returns the evidence.
func (r *repeats) end() error {
	e := &RepeatError{Rounds: r.works, Calls: slices.Clone(r.row)}
	slices.SortStableFunc(e.Calls, func(a, b RepeatedCall) int { return b.Times - a.Times })
	return e
}

// A RepeatError is the evidence that an agent went in circles. It matches
// [ErrRepeating].
type RepeatError struct {
	Rounds int            // in a row without anything new
	Calls  []RepeatedCall // that were made in them, the most frequent first; a few
}

// A RepeatedCall is a call that was made over and over.
type RepeatedCall struct {
	Tool      string
	Arguments string // JSON with sorted keys, cut at 200 bytes
	Times     int
}

func (e *RepeatError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %d rounds in a row", ErrRepeating, e.Rounds)
	for i, c := range e.Calls[:min(3, len(e.Calls))] {
		sep := ", "
		if i == 0 {
			sep = "; "
		}
		fmt.Fprintf(&b, "%s%s %s (%d times)", sep, c.Tool, c.Arguments, c.Times)
	}
	return b.String()
}

// Is reports whether target is ErrRepeating.
func (e *RepeatError) Is(target error) bool { return target == ErrRepeating }
