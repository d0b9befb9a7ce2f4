package agentloop

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

const (
	// maxStacked is the number of goroutines up to which stacks are taken: the process
	// stands still meanwhile.
	maxStacked = 5000
	// maxStack bounds one stack as it is kept.
	maxStack = 16 << 10
)

// A callLabels identifies the goroutines of one call of user code in profiles and
// dumps.
type callLabels struct{ agent, in, number string }

func (l callLabels) set() pprof.LabelSet {
	return pprof.Labels("agent", l.agent, "call", l.number, "in", l.in)
}

// within reports whether a record of a goroutine profile belongs to that call.
func (l callLabels) within(record []byte) bool {
	for key, value := range map[string]string{"agent": l.agent, "call": l.number, "in": l.in} {
		if !bytes.Contains(record, fmt.Appendf(nil, "%q:%q", key, value)) {
			return false
		}
	}
	return true
}

// stacks takes the stacks of abandoned goroutines, all at once: they tend to be
// abandoned together.
type stacks struct {
	mu      sync.Mutex
	taken   time.Time
	records [][]byte // of goroutines with labels
}

// of returns the stacks of the goroutines of a call that hung at the given time, or
// why they are not known.
func (s *stacks) of(l callLabels, by time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken.Before(by) || s.taken.IsZero() {
		if n := runtime.NumGoroutine(); n > maxStacked {
			return fmt.Sprintf("(not taken: there are %d goroutines)", n)
		}
		s.records, s.taken = takeStacks(), time.Now()
	}
	var found []byte
	for _, record := range s.records {
		if l.within(record) {
			found = append(append(found, record...), '\n')
		}
	}
	if len(found) == 0 {
		return "(the goroutine has ended)"
	}
	return string(found[:min(len(found), maxStack)])
}

func takeStacks() (list [][]byte) {
	var b bytes.Buffer
	if pprof.Lookup("goroutine").WriteTo(&b, 1) != nil {
		return nil
	}
	for record := range bytes.SplitSeq(b.Bytes(), []byte("\n\n")) {
		if bytes.Contains(record, []byte("# labels: ")) {
			list = append(list, record)
		}
	}
	return list
}
