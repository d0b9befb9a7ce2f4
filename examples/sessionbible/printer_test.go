package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStoppedTerminalStopsNobody(t *testing.T) {
	r, w := io.Pipe() // nobody reads yet
	p := newPrinter(w)
	for range 3000 {
		p.line("a line")
	}
	read := make(chan int)
	go func() {
		data, _ := io.ReadAll(r)
		read <- bytes.Count(data, []byte("a line\n"))
	}()
	p.flush()
	p.line("a line")
	p.close()
	_ = w.Close()
	n := <-read
	assert.GreaterOrEqual(t, n, maxBehind+1, "what was printed in time is written")
	assert.Less(t, n, 3001)
	p.line("late") // is dropped, and does no harm
	p.flush()
	p.close()
}

func TestFlushWaitsForAllBeforeIt(t *testing.T) {
	var b strings.Builder
	p := newPrinter(&b)
	p.line("one %d", 1)
	_, _ = p.Write([]byte("two\nthree\n"))
	p.flush()
	assert.Equal(t, "one 1\ntwo\nthree\n", b.String())
	p.close()
}
