package llmclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// A kept is a response whose attempt failed.
type kept struct {
	status int
	proto  string
	major  int
	minor  int
	header http.Header
	body   []byte
	broken bool // the body cannot be shown
}

// keep returns the response of a failed attempt, or nil if none came. An error
// inside a 200 becomes a response with the status that it stands for. The body of
// any other 200 that is no answer is replaced by the error, since an SDK would take
// it for an answer.
func (a *attempt) keep() *kept {
	if a.head == nil {
		return nil
	}
	h := a.head
	k := &kept{status: h.StatusCode, proto: h.Proto, major: h.ProtoMajor, minor: h.ProtoMinor, header: h.Header.Clone()}
	if to, err := h.Location(); err == nil && (to.Host != a.call.passed.url.Host || to.Scheme != a.call.passed.url.Scheme) &&
		(h.StatusCode == http.StatusTemporaryRedirect || h.StatusCode == http.StatusPermanentRedirect) {
		k.header.Del("Location") // the SDK's client would send the prompt there, and keys in headers that it does not know
	}
	switch {
	case h.StatusCode >= 300:
		k.body = a.tape.take(-1)
	case a.out.inside:
		k.status = insideStatus(a.out.server)
		k.header.Set("Content-Type", "application/json")
		if k.body = a.out.server.Raw; !json.Valid(k.body) || !bytes.Contains(k.body, []byte(`"error"`)) {
			k.body, _ = json.Marshal(map[string]any{"error": map[string]string{
				"message": a.out.server.Message, "type": a.out.server.Type, "code": a.out.server.Code,
			}})
		}
	default:
		k.broken = true
	}
	return k
}

// response returns the response for the SDK.
func (k *kept) response(req *http.Request, err error) *http.Response {
	h := k.header.Clone()
	h.Set("X-Should-Retry", "false")
	h.Del("Content-Length")
	var body io.Reader = bytes.NewReader(k.body)
	length := int64(len(k.body))
	if k.broken {
		body, length = failing{err}, -1
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", k.status, http.StatusText(k.status)), StatusCode: k.status,
		Proto: k.proto, ProtoMajor: k.major, ProtoMinor: k.minor,
		Header: h, Body: io.NopCloser(body), ContentLength: length, Request: req,
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
