package fakeserver

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// A turn is the playing of one reply. It belongs to one goroutine.
type turn struct {
	srv  *Server
	req  *Request
	ctx  context.Context // ends when the client leaves or the server closes
	w    http.ResponseWriter
	ctl  *http.ResponseController
	conn *conn

	plain bool // one JSON answer instead of a stream
	whole chat.Assembler
	said  bool // whole has something in it

	code  int  // the status for the headers
	begun bool // the headers are sent

	crlf    bool
	piece   int // most bytes in one write; negative: at random up to that
	rng     *rand.Rand
	pause   time.Duration // before each piece of output
	outputs int           // pieces of output so far
	limit   int           // outputs after which an interruption is due
	calls   int           // tool calls so far
	tokens  int64         // said so far, estimated, for usage
}

func newTurn(ctx context.Context, s *Server, r *Request, c *conn, w http.ResponseWriter) *turn {
	return &turn{
		srv: s, req: r, ctx: ctx, w: w, ctl: http.NewResponseController(w), conn: c,
		plain: !r.Stream && isCompletion(r.Method, r.Path),
		code:  http.StatusOK,
		limit: math.MaxInt,
		rng:   rand.New(rand.NewPCG(s.cfg.Seed, uint64(r.Ordinal))),
	}
}

// sleep waits. It ends early only if the client goes away or the server
// closes.
func (t *turn) sleep(d time.Duration) error {
	if d <= 0 {
		return t.alive()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.ctx.Done():
		return errGone
	}
}

func (t *turn) alive() error {
	if t.ctx.Err() != nil {
		return errGone
	}
	return nil
}

// begin sends the headers, if they have not been sent. kind is the content
// type unless a step has set another.
func (t *turn) begin(kind string) error {
	if t.begun {
		return nil
	}
	t.begun = true
	h := t.w.Header()
	if _, set := h["Content-Type"]; !set {
		h.Set("Content-Type", kind)
	}
	if kind == typeStream {
		h.Set("Cache-Control", "no-cache")
	}
	t.w.WriteHeader(t.code)
	return t.flush()
}

const (
	typeStream = "text/event-stream"
	typeJSON   = "application/json"
	typeHTML   = "text/html; charset=utf-8"
)

func (t *turn) flush() error {
	if t.ctl.Flush() != nil {
		return errGone
	}
	return t.alive()
}

// write sends bytes of the body, cut up if asked for.
func (t *turn) write(b []byte) error {
	if t.piece == 0 {
		return t.writeOnce(b)
	}
	for len(b) > 0 {
		n := t.piece
		if n < 0 {
			n = 1 + t.rng.IntN(-n)
		}
		n = min(n, len(b))
		if err := t.writeOnce(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (t *turn) writeOnce(b []byte) error {
	if _, err := t.w.Write(b); err != nil {
		return errGone
	}
	return t.flush()
}

// event sends lines of an event stream, with the line ends asked for.
func (t *turn) event(lines string) error {
	if err := t.begin(typeStream); err != nil {
		return err
	}
	b := []byte(lines)
	if t.crlf {
		b = bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))
	}
	return t.write(b)
}

// output makes room for a piece of output: it waits if the reply is to be
// slow, and fails if the reply is to be interrupted.
func (t *turn) output() error {
	if t.outputs >= t.limit {
		return errInterrupted
	}
	t.outputs++
	return t.sleep(t.pause)
}

// chunk says a piece of the answer.
func (t *turn) chunk(ch *chat.Chunk) error {
	if ch.Output() {
		if err := t.output(); err != nil {
			return err
		}
		t.tokens += tokens(ch)
	}
	if ch.FinishReason != "" && t.limit != math.MaxInt {
		return errInterrupted
	}
	if t.plain {
		t.said = true
		t.whole.Add(ch)
		return t.alive()
	}
	return t.event("data: " + string(t.encodeChunk(ch)) + "\n\n")
}

// body sends a whole body with its length.
func (t *turn) body(kind string, b []byte) error {
	if !t.begun {
		t.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	}
	if err := t.begin(kind); err != nil {
		return err
	}
	return t.write(b)
}

// finish ends a reply whose steps are done.
func (t *turn) finish() error {
	if t.plain && t.said {
		return t.body(typeJSON, t.encodeWhole())
	}
	kind := typeStream
	if t.plain {
		kind = typeJSON
	}
	return t.begin(kind)
}
