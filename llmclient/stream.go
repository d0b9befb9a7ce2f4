package llmclient

import (
	"context"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
)

// A Stream is an answer that comes piece by piece. It is read by one
// goroutine, with [Stream.All] or [Stream.Response]; [Stream.Close] may be
// called from any.
//
// A consumer may take its time between pieces: the clocks stand still meanwhile.
// The connection, the permit and all else that the call holds is given back when
// the stream ends, fails or is closed, when its iterator is left, or when its
// context ends.
type Stream struct {
	client *Client
	ctx    context.Context
	req    *chat.Request

	call   *call    // set by the first read
	a      *attempt // set when it has committed
	early  []chat.Chunk
	gave   bool // pieces with output
	called bool // pieces of calls
	join   chat.Joiner

	turn    turn
	release func() bool // stops listening to the context
	resp    *chat.Response

	mu     sync.Mutex
	begun  bool
	closed bool

	committed bool // a is there to be ended
}

// All returns the pieces of the answer as they come. An error is the last item; it
// is an *[Error] that has the pieces so far as its Partial. The iterator ends
// without an error when the answer is whole. Leaving the loop early closes the
// stream.
//
// The pieces can be read once. A second use of the iterator goes on where the
// first one ended.
func (s *Stream) All() iter.Seq2[chat.Chunk, error] {
	return func(yield func(chat.Chunk, error) bool) {
		finished := false
		defer func() {
			if !finished {
				_ = s.Close()
			}
		}()
		for {
			ch, err := s.next()
			switch {
			case err == io.EOF:
				finished = true
				return
			case err != nil:
				finished = true
				yield(chat.Chunk{}, err)
				return
			case !yield(*ch, nil):
				return
			}
		}
	}
}

// Response reads the rest of the answer and returns the whole answer, as Chat
// does.
func (s *Stream) Response() (*chat.Response, error) {
	for {
		switch _, err := s.next(); {
		case err == io.EOF:
			return s.resp, nil
		case err != nil:
			return nil, err
		}
	}
}

// Close ends the call, if it has not ended, and gives back all it holds. The
// connection is closed, so that the server can notice. Reads under way and
// later ones fail with an error that matches [ErrClosed]. Close does not wait
// for the server and returns nil.
func (s *Stream) Close() error {
	s.mu.Lock()
	s.closed = true
	cl, begun := s.call, s.begun
	s.begun = true
	s.mu.Unlock()
	switch {
	case !begun:
		e := &Error{Kind: ErrClosed, text: "the stream was closed before it was read"}
		if len(s.client.eps) == 1 {
			e.Endpoint, e.Model = s.client.eps[0].name, s.client.eps[0].model
		}
		if s.req != nil && s.req.Model != "" {
			e.Model = s.req.Model
		}
		s.turn.end(e)
	case cl != nil && s.turn.ended() == nil:
		cl.stop()
		s.interrupt()
	}
	return nil
}

// next returns the next piece, io.EOF at the end, or the stream's error.
func (s *Stream) next() (*chat.Chunk, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	if len(s.early) > 0 {
		if err := s.turn.ended(); err == nil || err == io.EOF {
			ch := &s.early[0]
			s.early = s.early[1:]
			return s.piece(ch), nil
		}
	}
	if err := s.turn.read(); err != nil {
		return nil, err
	}
	s.a.watch.tell((*meter).resume)
	ch, err := s.a.next()
	s.a.watch.tell((*meter).pause)
	switch {
	case err == nil:
		s.turn.done()
		if s.call.gone() {
			s.interrupt() // it came while we were reading
		}
		return s.piece(ch), nil
	case err == io.EOF:
		s.a.settle(nil, breaker.Success, time.Now())
		s.succeed()
		return nil, io.EOF
	}
	failed, _ := s.a.fail(err)
	return nil, s.fail(failed)
}

// piece returns the part of a chunk that is new. Some servers end a stream with the
// whole message once more, which must not be shown twice.
func (s *Stream) piece(ch *chat.Chunk) *chat.Chunk {
	if ch.Whole && s.gave {
		ch.Content, ch.Reasoning, ch.Refusal = "", "", ""
		if s.called {
			ch.ToolCalls = nil
		}
	}
	s.gave = s.gave || ch.Output()
	s.called = s.called || len(ch.ToolCalls) > 0
	s.join.Join(ch) // some servers cut characters in two
	return ch
}

// begin makes the call, once, up to the attempt that commits.
func (s *Stream) begin() error {
	s.mu.Lock()
	begun := s.begun
	s.begun = true
	s.mu.Unlock()
	if begun {
		return nil
	}
	cl, err := s.client.begin(s.ctx, s.req)
	if err != nil {
		s.turn.end(err)
		return err
	}
	s.mu.Lock()
	s.call = cl
	if s.closed {
		cl.stop()
	}
	s.mu.Unlock()
	var a *attempt
	defer func() {
		if a == nil {
			cl.abandon()
		}
	}()
	if a, err = cl.run(firstOutput); err != nil {
		s.turn.end(err)
		return err
	}
	s.a, s.early = a, a.early
	if a.resp != nil { // it was whole before anything was output
		s.succeed()
		return nil
	}
	a.watch.tell((*meter).pause)
	s.ready()
	return nil
}

// ready makes the end of the context end the stream, even while nobody reads.
func (s *Stream) ready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = true
	s.release = context.AfterFunc(s.a.ctx, s.interrupt)
}

// succeed ends the stream and its call with the whole answer.
func (s *Stream) succeed() {
	s.resp = s.a.resp
	if s.release != nil {
		s.release()
	}
	s.call.succeed(s.a)
	s.turn.end(io.EOF)
}

// fail ends the stream and its call with an error.
func (s *Stream) fail(failed *Error) error {
	if s.release != nil {
		s.release()
	}
	err := s.call.fail(failed)
	s.turn.end(err)
	return err
}

// interrupt ends a stream whose context has ended while nobody was reading it.
func (s *Stream) interrupt() {
	s.mu.Lock()
	committed := s.committed
	s.mu.Unlock()
	if !committed || !s.turn.seize() {
		return // a goroutine that waits for an answer or reads one notices by itself
	}
	if s.a.leave() {
		s.succeed()
		return
	}
	failed, _ := s.a.fail(errClosed)
	_ = s.fail(failed)
}
