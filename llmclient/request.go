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
	if req.Header.Get("Idempotency-Key") == "" && req.Header.Get("X-Idempotency-Key") == "" {
		// For connections that took not a byte of it. With such a key the transport would also repeat what the server has read,
		// and that is ours to decide and to count.
		req.GetBody = body
	}
	return req, nil
}

// atOnce is the largest body that is handed out in one piece: there is no headway
// to see in it. net/http puts such a one into a packet with the header if it knows
// its type, and else sends two.
const atOnce = 32 << 10

// A bodyReader gives out the request and tells how writing it goes on.
type bodyReader struct {
	rest  [][]byte
	at    int // in the first piece
	wrote func()
}

// Read hands out a little at a time: each further Read says that what it gave
// before has found its way to the network.
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
