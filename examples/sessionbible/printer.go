package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// maxBehind is how many texts may wait for the writer of a printer.
const maxBehind = 1024

// A printer writes lines that do not mix. It is safe for concurrent use, and
// only flush and close wait for the writer: a terminal that was stopped must
// not stop the agents.
type printer struct {
	w       io.Writer
	stopped chan struct{} // closed when the writing goroutine has ended

	mu      sync.Mutex
	changed sync.Cond // what is below has changed
	queue   []string
	writing bool
	closed  bool
}

// newPrinter starts a printer. The caller must close it.
func newPrinter(w io.Writer) *printer {
	p := &printer{w: w, stopped: make(chan struct{})}
	p.changed.L = &p.mu
	go p.run()
	return p
}

func (p *printer) run() {
	defer close(p.stopped)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.queue) == 0 && !p.closed {
			p.changed.Wait()
		}
		if len(p.queue) == 0 {
			return
		}
		text := strings.Join(p.queue, "")
		p.queue, p.writing = nil, true
		p.mu.Unlock()
		// The error does not matter: a closed terminal is no reason to lose a book.
		_, _ = io.WriteString(p.w, text)
		p.mu.Lock()
		p.writing = false
		p.changed.Broadcast()
	}
}

// line prints a line. It never waits: a line is lost if the writer is far behind, or
// after close.
func (p *printer) line(format string, args ...any) {
	p.put(fmt.Sprintf(format, args...) + "\n")
}

// Write makes the printer a writer, for texts of several lines.
func (p *printer) Write(text []byte) (int, error) {
	p.put(string(text))
	return len(text), nil
}

func (p *printer) put(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed && len(p.queue) < maxBehind {
		p.queue = append(p.queue, text)
		p.changed.Broadcast()
	}
}

// flush waits until everything printed so far is written.
func (p *printer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 || p.writing {
		p.changed.Wait()
	}
}

// close waits until everything is written. It may be called again.
func (p *printer) close() {
	p.mu.Lock()
	p.closed = true
	p.changed.Broadcast()
	p.mu.Unlock()
	<-p.stopped
}
