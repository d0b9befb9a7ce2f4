package llmclient

import "sync"

// A turn keeps two goroutines from using one answer at the same time: the reader,
// and the one that ends the answer when its context ends while nobody is reading.
type turn struct {
	mu      sync.Mutex
	reading bool
	ending  chan struct{} // set while the other party is at it
	over    error         // io.EOF, or why it ended; then nobody has a turn
}

// read takes the reader's turn, or returns how the answer ended.
func (t *turn) read() error {
	t.mu.Lock()
	if t.ending != nil {
		t.mu.Unlock()
		<-t.ending
		t.mu.Lock()
	}
	defer t.mu.Unlock()
	if t.over != nil {
		return t.over
	}
	t.reading = true
	return nil
}

// done gives the reader's turn back.
func (t *turn) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reading = false
}

// seize takes the turn to end the answer. It reports false if there is a reader,
// which will notice by itself, or if the answer has ended.
func (t *turn) seize() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading || t.over != nil || t.ending != nil {
		return false
	}
	t.ending = make(chan struct{})
	return true
}

// end notes how the answer ended and gives the turn back. Only the goroutine that
// has the turn may call it.
func (t *turn) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over == nil {
		t.over = err
	}
	t.reading = false
	if t.ending != nil {
		close(t.ending)
	}
}

// ended returns how the answer ended, or nil.
func (t *turn) ended() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}
