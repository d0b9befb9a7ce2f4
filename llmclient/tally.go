package llmclient

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"
)

// A tally reads the answer's body, counts it, and bounds it.
type tally struct {
	a     *attempt
	n     int64
	limit int64
}

var (
	errAnswerTooLarge = errors.New("the answer is too large")
	errTooManyCalls   = errors.New("the answer calls too many tools")
)

func (t *tally) Read(p []byte) (int, error) {
	n, err := t.a.body.Read(p)
	if err == io.EOF {
		t.a.read = true
	}
	if n > 0 {
		t.n += int64(n)
		t.a.watch.tell(func(m *meter, now moment) { m.read(n, now) })
		t.a.at.ep.evidence.saw(time.Now())
		if req := t.a.call.req; req != nil && req.OnBytes != nil {
			_, _ = contain(func() (any, error) { req.OnBytes(); return nil, nil })
		}
		if t.n > t.limit {
			return 0, errAnswerTooLarge
		}
	}
	return n, err
}

// snippet returns the beginning of a body that is no answer, for a message.
// What is secret is taken out before it is cut: half a key is a secret too.
func (a *attempt) snippet(body []byte) string {
	text := a.at.redact(strings.ToValidUTF8(string(bytes.TrimSpace(body)), "?"))
	return bounded(text[:min(len(text), 4<<10)], 160)
}
