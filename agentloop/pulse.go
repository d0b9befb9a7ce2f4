package agentloop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// A patience says how long what an agent does may take without a sign of life.
type patience int

const (
	ends  patience = iota // it ends by itself in time, like a tool with a deadline
	usual                 // StallAfter
	model                 // StallAfter, or more if the group's model is slow
)

// An act is one thing that an agent does: a call of the model, a pause, or one of
// the calls of tools that run beside each other. Each has a life of its own, so
// that none is taken for dead, or for alive, because of the one beside it. The
// mutex of its pulse guards it.
type act struct {
	doing    string
	since    time.Time
	life     time.Time // the last sign of it
	spoke    time.Time // the first output of the model; zero if there is none
	speaks   time.Time // the last
	until    time.Time // when a wait ends that is known to be one; zero if there is none
	patience patience
	told     bool // the watchdog has spoken since
	over     bool
	number   int // of the main act: grows with each

	call  *toolCall               // nil if it is none of a tool
	stop  context.CancelCauseFunc // ends it alone; nil if nothing can
	stall *StallError             // that it was ended for
}

// A pulse tells what an agent does, and when that last showed life: each change
// of what it does is life, and so is a call of Alive.
type pulse struct {
	mu     sync.Mutex
	main   act
	before string // what it did until then
	took   time.Duration
	tools  []*act // while there are any, main is to wait for them

	children map[*run]*act // agents that run inside its tools
}

// does notes what the agent does from now on, and returns the number of that.
func (p *pulse) does(doing string, patience patience) (number int) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.main.doing != "" {
		p.before, p.took = p.main.doing, now.Sub(p.main.since)
	}
	p.main = act{doing: doing, since: now, life: now, patience: patience, number: p.main.number + 1}
	return p.main.number
}

// bears returns until when an act may be silent, if that is as long as the window: from
// its last sign of life, or from the end of a wait that it has told of.
func (a *act) bears(window time.Duration) time.Time {
	if a.until.After(a.life) {
		return a.until.Add(window)
	}
	return a.life.Add(window)
}

// runs notes a tool call that the agent makes from now on; it is to be ended.
func (p *pulse) runs(c *toolCall) {
	now := time.Now()
	a := &act{doing: "running " + c.Name, since: now, life: now, call: c}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.act, p.tools = a, append(p.tools, a)
}

func (p *pulse) ends(a *act) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.over, a.stop = true, nil
	p.tools = slices.DeleteFunc(p.tools, func(x *act) bool { return x == a })
}

// aside notes that what the agent does begins with something else, or is
// interrupted by it, until the returned function is called. A nil act is the main
// one.
func (p *pulse) aside(a *act, doing string, patience patience) (back func()) {
	if a == nil {
		a = &p.main
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	was := *a
	a.doing, a.since, a.life, a.patience, a.told, a.stop = doing, now, now, patience, false, nil
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		a.doing, a.since, a.life, a.patience, a.told, a.stop = was.doing, was.since, time.Now(), was.patience, false, was.stop
	}
}

// waits notes how long an act may be silent from now on, and what ends it alone.
func (p *pulse) waits(a *act, patience patience, stop context.CancelCauseFunc) {
	if a == nil {
		a = &p.main
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	a.patience, a.stop, a.life, a.told = patience, stop, now, false
}

// endedFor returns the stall for which the watchdog has ended the act whose
// context this is, or nil.
func (p *pulse) endedFor(a *act, ctx context.Context) *StallError {
	if a == nil {
		a = &p.main
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if stall, _ := context.Cause(ctx).(*StallError); stall != nil && stall == a.stall {
		return stall
	}
	return nil
}

// beat notes a sign of life, and reports whether there is any life left: code
// that was left behind may go on calling Alive for ever.
func (p *pulse) beat(a *act) bool {
	if a == nil {
		a = &p.main
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	a.life, a.told = now, false
	return p.main.doing != "" && !a.over
}

// silent reports whether the watchdog has spoken of the agent itself, and that has
// shown no life since.
func (p *pulse) silent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.main.told
}

// A sound is what a call of the model lets hear of itself.
type sound int

const (
	breath sound = iota // a sign of life, such as pings
	word                // output of the model
)

// hears notes a sound of the main act with the number, and reports whether that is
// the one under way.
func (p *pulse) hears(number int, s sound) bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.main
	if a.number != number || a.doing == "" {
		return false
	}
	a.life, a.told = now, false
	if s == word {
		if a.spoke.IsZero() {
			a.spoke = now
		}
		a.speaks = now
	}
	return true
}

// expects notes that the main act with the number will be silent until then, and
// reports whether that is the one under way.
func (p *pulse) expects(number int, until time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.main
	if a.number != number || a.doing == "" {
		return false
	}
	a.until = until
	a.spoke, a.speaks = time.Time{}, time.Time{} // what comes after it is another answer
	return true
}

// speech returns when the model that the agent waits for began to answer, and when
// there was output last; zero if there was none. So long as the client is known to
// wait, it is as if there were.
func (p *pulse) speech() (first, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.main
	if a.until.After(a.speaks) {
		return a.until, a.until
	}
	return a.spoke, a.speaks
}

func (p *pulse) adopt(child *run, in *act) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.children == nil {
		p.children = make(map[*run]*act)
	}
	p.children[child] = in
}

func (p *pulse) release(child *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.children, child)
}

// state says in words what the agent does, since when, and what it did before.
func (p *pulse) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stateLocked(nil, time.Now())
}

// stateLocked says it of one act, and what goes on beside it; nil means of all.
func (p *pulse) stateLocked(of *act, now time.Time) string {
	if p.main.doing == "" {
		return ""
	}
	list := p.tools
	if len(list) == 0 {
		list = []*act{&p.main}
	}
	var doing, beside []string
	for _, a := range list {
		text := fmt.Sprintf("%s for %v", a.doing, brief(now.Sub(a.since)))
		if of == nil || of == a {
			doing = append(doing, text)
		} else {
			beside = append(beside, text)
		}
	}
	s := some(doing)
	if len(beside) > 0 {
		s += " (beside it " + some(beside) + ")"
	}
	if p.before != "" {
		s += fmt.Sprintf("; before that %s for %v", p.before, brief(p.took))
	}
	return s
}

// some joins the first few of a list.
func some(list []string) string {
	const few = 8
	if n := len(list) - few; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), n)
	}
	return strings.Join(list, ", ")
}

// does notes what the agent does from now on, and returns the number of that.
func (r *run) does(doing string, patience patience) (number int) {
	number = r.pulse.does(doing, patience)
	r.parent.beat(r.under)
	return number
}

// A line is the one on which the watchdog hears of one call of the model. When that
// is over, or was left behind, nothing that is said there counts: what goes on
// streaming unheard is no life of the call after it.
type line struct {
	of     *run
	number int // of the act
}

type lineKey struct{}

// hears is a sound of the call.
func (l *line) hears(s sound) {
	if r := l.of; r.pulse.hears(l.number, s) {
		r.parent.beat(r.under)
	}
}

func (l *line) output() { l.hears(word) }
func (l *line) bytes()  { l.hears(breath) }

// waits is a wait of known length that the client of the model begins.
func (l *line) waits(d time.Duration) {
	if d > 0 && l.of.pulse.expects(l.number, time.Now().Add(d)) {
		l.hears(breath)
	}
}

// listen lets the watchdog hear what comes of the answer to a request. What the
// template listens with hears it as well.
func (l *line) listen(req *chat.Request) {
	req.OnOutput, req.OnBytes = both(l.output, req.OnOutput), both(l.bytes, req.OnBytes)
	waits := req.OnWait
	if req.OnWait = l.waits; waits != nil {
		req.OnWait = func(d time.Duration) { l.waits(d); waits(d) }
	}
}

// both returns a function that calls one and then the other, which may be nil.
func both(one, other func()) func() {
	if other == nil {
		return one
	}
	return func() { one(); other() }
}

// beat is a sign of life of what the agent does, and so of those in whose tools
// it runs. A nil act is the main one.
func (r *run) beat(a *act) {
	for r != nil && r.pulse.beat(a) {
		r, a = r.parent, r.under
	}
}
