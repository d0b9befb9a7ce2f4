package llmclient

import (
	"context"
	"io"
	"iter"
	"sync"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/chat"
)

// A Stream is an answer that comes piece by piece. It is read by one
// goroutine, with [Stream.All] or [Stream.Response]; [Stream.Close] may be
// called from any.
//
// A consumer may take its time between pieces: the clocks stand still
// meanwhile. Whatever was acquired for the call is given back when the stream
// ends, fails, is left through its iterator, is closed, or its context ends.
type Stream struct {
	client *Client
	ctx    context.Context
	req    *chat.Request

	call  *call    // set by the first read
	a     *attempt // set when it has committed
	early []chat.Chunk
	gave  bool // pieces with output

	mu      sync.Mutex
	begun   bool
	closed  bool
	reading bool          // somebody is in next: it notices by itself when the context ends
	ending  chan struct{} // set when interrupt has taken the stream, closed when its end is noted
	over    bool          // nothing more will come
	err     error
	resp    *chat.Response
	release func() bool // stops listening to the context
}

// All returns the pieces of the answer as they come. After an error, which is
// an *[Error] with what had come as its Partial, there is nothing more. The
// iterator ends without an error when the answer is whole. Leaving the loop
// early closes the stream.
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

// Response reads what is left of the answer and returns it whole, as Chat
// would have.
func (s *Stream) Response() (*chat.Response, error) {
	for {
		switch _, err := s.next(); {
		case err == io.EOF:
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.resp, nil
		case err != nil:
			return nil, err
		}
	}
}

// Close ends the call, if it has not ended, and gives back all it holds. The
// connection is closed, so that the server can notice. Reads under way and
// later ones fail with an error that matches [ErrClosed]. Close never blocks
// and returns nil.
func (s *Stream) Close() error {
	s.mu.Lock()
	s.closed = true
	cl, over := s.call, s.over
	if !s.begun {
		s.begun, s.over = true, true
		s.err = &Error{Kind: ErrClosed, Endpoint: s.client.ep.name, Model: s.req.Model, text: "the stream was closed before it was read"}
	}
	s.mu.Unlock()
	if cl != nil && !over {
		cl.cancel(errClosed)
		s.interrupt()
	}
	return nil
}

// next returns the next piece, io.EOF at the end, or the stream's error.
func (s *Stream) next() (*chat.Chunk, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.ending != nil {
		s.mu.Unlock()
		<-s.ending
		s.mu.Lock()
	}
	if len(s.early) > 0 && s.err == nil {
		ch := &s.early[0]
		s.early = s.early[1:]
		s.mu.Unlock()
		return s.piece(ch), nil
	}
	if s.over {
		err := s.err
		s.mu.Unlock()
		if err == nil {
			err = io.EOF
		}
		return nil, err
	}
	s.reading = true
	s.mu.Unlock()

	s.a.watch.tell((*meter).resume)
	ch, err := s.a.next()
	s.a.watch.tell((*meter).pause)
	s.mu.Lock()
	s.reading = false
	s.mu.Unlock()
	switch {
	case err == nil:
		if s.call.ctx.Err() != nil {
			s.interrupt() // it came while we were reading
		}
		return s.piece(ch), nil
	case err == io.EOF:
		s.a.settle(nil, breaker.Success)
		return nil, s.end(nil, s.a.resp)
	}
	failed, _ := s.a.fail(err)
	return nil, s.end(failed, nil)
}

// piece returns what of a chunk is new. Some servers end a stream with the whole
// message once more, which would be shown twice.
func (s *Stream) piece(ch *chat.Chunk) *chat.Chunk {
	if ch.Whole && s.gave {
		ch.Content, ch.Reasoning, ch.Refusal, ch.ToolCalls = "", "", "", nil
	}
	s.gave = s.gave || ch.Output()
	return ch
}

// begin makes the call, once, up to the attempt that commits.
func (s *Stream) begin() error {
	s.mu.Lock()
	if s.begun {
		err := s.err
		if s.a != nil || err == nil {
			err = nil
		}
		s.mu.Unlock()
		return err
	}
	s.begun = true
	s.mu.Unlock()

	cl, err := s.client.begin(s.ctx, s.req)
	if err != nil {
		return s.fail(err)
	}
	s.mu.Lock()
	s.call = cl
	if s.closed {
		cl.cancel(errClosed)
	}
	s.mu.Unlock()
	defer func() {
		if s.a == nil {
			cl.abandon()
		}
	}()
	a, err := cl.run(firstOutput)
	if err != nil {
		return s.fail(err)
	}
	s.a, s.early = a, a.early
	if a.resp != nil { // it was whole before anything was output
		s.end(nil, a.resp)
		return nil
	}
	a.watch.tell((*meter).pause)
	s.mu.Lock()
	s.release = context.AfterFunc(cl.ctx, s.interrupt)
	s.mu.Unlock()
	return nil
}

// fail notes that there is no answer.
func (s *Stream) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.err = true, err
	return err
}

// end ends the stream and its call, and returns what next is to return. If it
// has ended already, that end counts.
func (s *Stream) end(failed *Error, resp *chat.Response) error {
	s.mu.Lock()
	if s.over {
		defer s.mu.Unlock()
		if s.err != nil {
			return s.err
		}
		return io.EOF
	}
	s.over, s.resp = true, resp
	if s.release != nil {
		s.release()
	}
	if failed == nil {
		s.mu.Unlock()
		s.call.succeed(s.a)
		return io.EOF
	}
	s.err = failed
	s.mu.Unlock()
	err := s.call.fail(failed)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	return err
}

// interrupt ends a stream whose context has ended while nobody was reading it.
func (s *Stream) interrupt() {
	s.mu.Lock()
	if s.a == nil || s.reading || s.over || s.ending != nil {
		s.mu.Unlock()
		return
	}
	s.ending = make(chan struct{})
	s.mu.Unlock()
	defer close(s.ending)
	failed, _ := s.a.fail(context.Cause(s.call.ctx))
	_ = s.end(failed, nil)
}
