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

// A patience says how long an activity may go on without a sign of life.
type patience int

const (
	endsItself patience = iota // it ends by itself in time, like a tool with a deadline
	stallAfter                 // StallAfter
	modelPace                  // StallAfter, or more if the group's model is slow
)

// An activity is one thing that an agent does: a model call, a pause, or one of
// several tool calls that run beside each other. Each has its own signs of life, so
// that none is taken for dead, or for alive, because of another one. The mutex of its
// liveness guards it.
type activity struct {
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

// A liveness tells what an agent does, and when it last showed life: each change of
// its activity is a sign of life, and so is a call of Heartbeat.
type liveness struct {
	mu     sync.Mutex
	main   activity
	before string // what it did until then
	took   time.Duration
	tools  []*activity // while there are any, main is to wait for them

	children map[*run]*activity // agents that run inside its tools
}

// does notes what the agent does from now on, and returns the number of it.
func (p *liveness) does(doing string, patience patience) (number int) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.main.doing != "" {
		p.before, p.took = p.main.doing, now.Sub(p.main.since)
	}
	p.main = activity{doing: doing, since: now, life: now, patience: patience, number: p.main.number + 1}
	return p.main.number
}

// silentUntil returns when the activity will have been silent for the window: counted
// from its last sign of life, or from the end of a wait that was announced.
func (a *activity) silentUntil(window time.Duration) time.Time {
	if a.until.After(a.life) {
		return a.until.Add(window)
	}
	return a.life.Add(window)
}

// runs notes a tool call that the agent makes from now on. ends must be called when
// it is over.
func (p *liveness) runs(c *toolCall) {
	now := time.Now()
	a := &activity{doing: "running " + c.Name, since: now, life: now, call: c}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.act, p.tools = a, append(p.tools, a)
}

func (p *liveness) ends(a *activity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.over, a.stop = true, nil
	p.tools = slices.DeleteFunc(p.tools, func(x *activity) bool { return x == a })
}

// aside notes that an activity begins with something else, or is interrupted by it,
// until the returned function is called. A nil activity is the main one.
func (p *liveness) aside(a *activity, doing string, patience patience) (back func()) {
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

// waits notes how long an activity may be silent from now on, and the function that
// ends it alone.
func (p *liveness) waits(a *activity, patience patience, stop context.CancelCauseFunc) {
	if a == nil {
		a = &p.main
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	a.patience, a.stop, a.life, a.told = patience, stop, now, false
}

// endedFor returns the stall for which the watchdog has ended the activity with this
// context, or nil.
func (p *liveness) endedFor(a *activity, ctx context.Context) *StallError {
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

// beat notes a sign of life, and reports whether the activity is still under way:
// abandoned code may go on calling Heartbeat for ever.
func (p *liveness) beat(a *activity) bool {
	if a == nil {
		a = &p.main
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	a.life, a.told = now, false
	return p.main.doing != "" && !a.over
}

// silent reports whether the watchdog has announced a stall of the agent itself, and
// there was no sign of life since.
func (p *liveness) silent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.main.told
}

// A signal is a sign of life of a model call.
type signal int

const (
	anySignal    signal = iota // a sign of life, such as pings
	outputSignal               // output of the model
)

// hears notes a signal of the main activity with the number, and reports whether that
// is the one under way.
func (p *liveness) hears(number int, s signal) bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.main
	if a.number != number || a.doing == "" {
		return false
	}
	a.life, a.told = now, false
	if s == outputSignal {
		if a.spoke.IsZero() {
			a.spoke = now
		}
		a.speaks = now
	}
	return true
}

// expects notes that the main activity with the number will be silent until then, and
// reports whether that is the one under way.
func (p *liveness) expects(number int, until time.Time) bool {
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

// speech returns when the model call of the agent had its first and its last output;
// zero if it had none. A wait that the client has announced counts as output until it
// ends.
func (p *liveness) speech() (first, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.main
	if a.until.After(a.speaks) {
		return a.until, a.until
	}
	return a.spoke, a.speaks
}

func (p *liveness) adopt(child *run, in *activity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.children == nil {
		p.children = make(map[*run]*activity)
	}
	p.children[child] = in
}

func (p *liveness) release(child *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.children, child)
}

// state describes what the agent does, since when, and what it did before.
func (p *liveness) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stateLocked(nil, time.Now())
}

// stateLocked describes one activity, and those beside it; nil means all.
func (p *liveness) stateLocked(of *activity, now time.Time) string {
	if p.main.doing == "" {
		return ""
	}
	list := p.tools
	if len(list) == 0 {
		list = []*activity{&p.main}
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

// does notes what the agent does from now on, and returns the number of it.
func (r *run) does(doing string, patience patience) (number int) {
	number = r.liveness.does(doing, patience)
	r.parent.beat(r.under)
	return number
}

// callSignals gives the watchdog the signals of one model call. When the call is over
// or abandoned, further signals do not count: what an abandoned call goes on
// streaming is no sign of life of the next call.
type callSignals struct {
	of     *run
	number int // of the act
}

type callSignalsKey struct{}

// hears notes a signal of the call.
func (l *callSignals) hears(s signal) {
	if r := l.of; r.liveness.hears(l.number, s) {
		r.parent.beat(r.under)
	}
}

func (l *callSignals) output() { l.hears(outputSignal) }
func (l *callSignals) bytes()  { l.hears(anySignal) }

// waits notes a wait of known length that the client of the model begins.
func (l *callSignals) waits(d time.Duration) {
	if d > 0 && l.of.liveness.expects(l.number, time.Now().Add(d)) {
		l.hears(anySignal)
	}
}

// listen makes the request's hooks give signals. The hooks of the template are called
// as well.
func (l *callSignals) listen(req *chat.Request) {
	req.OnOutput, req.OnBytes = both(l.output, req.OnOutput), both(l.bytes, req.OnBytes)
	waits := req.OnWait
	if req.OnWait = l.waits; waits != nil {
		req.OnWait = func(d time.Duration) { l.waits(d); waits(d) }
	}
}

// both returns a function that calls one and then other, which may be nil.
func both(one, other func()) func() {
	if other == nil {
		return one
	}
	return func() { one(); other() }
}

// beat notes a sign of life of an activity, and of the agents in whose tools it runs.
// A nil activity is the main one.
func (r *run) beat(a *activity) {
	for r != nil && r.liveness.beat(a) {
		r, a = r.parent, r.under
	}
}
