package llmclient

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"time"
)

// An answerBody reads the answer's body, counts it, and bounds it.
type answerBody struct {
	a     *attempt
	n     int64
	limit int64
}

var (
	errAnswerTooLarge = errors.New("the answer is too large")
	errTooManyCalls   = errors.New("the answer calls too many tools")
)

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.a.body.Read(p)
	if err == io.EOF {
		b.a.read = true
	}
	if n > 0 {
		b.n += int64(n)
		b.a.watch.tell(func(m *meter, now moment) { m.read(n, now) })
		b.a.at.ep.evidence.saw(time.Now())
		if req := b.a.call.req; req != nil && req.OnBytes != nil {
			_, _ = contain(func() (any, error) { req.OnBytes(); return nil, nil })
		}
		if b.n > b.limit {
			return 0, errAnswerTooLarge
		}
	}
	return n, err
}

// snippet returns the beginning of a body that is no answer, for a message. Secrets
// are redacted before it is cut, since half a key is a secret too.
func (a *attempt) snippet(body []byte) string {
	text := a.at.redact(strings.ToValidUTF8(string(bytes.TrimSpace(body)), "?"))
	return bounded(text[:min(len(text), 4<<10)], 160)
}
