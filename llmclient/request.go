package llmclient

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"time"
)

// request returns the attempt's request, whose progress is told to its watch.
func (a *attempt) request() (*http.Request, error) {
	cl := a.call
	w := &cl.at.ep.wire
	trace := &httptrace.ClientTrace{
		GetConn: func(string) {
			if w.dials {
				a.watch.tell((*meter).connect)
			}
		},
		DNSStart:     func(httptrace.DNSStartInfo) { a.watch.tell((*meter).connect) },
		ConnectStart: func(string, string) { a.watch.tell((*meter).connect) },
		GotConn: func(info httptrace.GotConnInfo) {
			a.connected.Store(true)
			a.reused.Store(info.Reused)
			endUnacknowledged(info.Conn, w.send)
			a.watch.tell((*meter).connected)
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				a.watch.tell((*meter).sent)
			}
		},
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			a.at.ep.evidence.saw(time.Now())
			if code > http.StatusContinue { // which is about the request
				a.watch.tell((*meter).ping)
			}
			return nil
		},
		GotFirstResponseByte: func() { a.firstByte.Store(true) },
	}
	ctx := httptrace.WithClientTrace(a.ctx, trace)
	body := func() (io.ReadCloser, error) {
		if w.trusted && cl.at.body.size <= atOnce {
			return io.NopCloser(bytes.NewReader(cl.at.body.joined())), nil
		}
		return &bodyReader{rest: cl.at.body.parts, wrote: func() { a.watch.tell((*meter).wrote) }}, nil
	}
	if cl.passed != nil {
		return cl.passed.request(ctx, &a.watch, body)
	}
	secrets := &cl.at.ep.secrets
	target := cl.at.moved
	if target == nil {
		target = secrets.target()
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: target, Host: target.Host, Header: secrets.header(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(cl.at.body.size),
	}).WithContext(ctx)
	if !w.direct {
		req.Header = req.Header.Clone() // what is above the transport may add to it
	}
	req.Body, _ = body()
	if !idempotent(req.Header) {
		req.GetBody = body
	}
	return req, nil
}

// idempotent reports whether a header has a key that makes net/http repeat a request
// even after the server has read it. Such a request gets no GetBody, so that the call
// decides and counts its repeats. Without the key, net/http repeats only requests of
// which a dead connection has taken no byte.
func idempotent(h http.Header) bool {
	return h.Get("Idempotency-Key") != "" || h.Get("X-Idempotency-Key") != ""
}

// atOnce is the largest body that is handed out in one piece, since its progress
// cannot be observed anyway. net/http sends a body of a type that it knows in one
// packet with the header, and others in a second packet.
const atOnce = 32 << 10

// A bodyReader hands out the request's body and reports the progress of writing it.
type bodyReader struct {
	rest  [][]byte
	at    int // in the first piece
	wrote func()
}

// Read hands out a little at a time: each Read shows that the bytes before it have
// been written to the network.
func (b *bodyReader) Read(p []byte) (n int, err error) {
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	b.wrote()
	p = p[:min(len(p), 32<<10)]
	for n < len(p) && len(b.rest) > 0 {
		k := copy(p[n:], b.rest[0][b.at:])
		n += k
		if b.at += k; b.at == len(b.rest[0]) {
			b.rest, b.at = b.rest[1:], 0
		}
	}
	return n, nil
}

func (b *bodyReader) Close() error { return nil }
