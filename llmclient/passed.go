package llmclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// passed is a request of an SDK above.
type passed struct {
	url    *url.URL
	method string
	header http.Header
	host   string
	body   io.ReadCloser // if it can be sent only once
	length int64
	coding []string

	trailer http.Header // filled in by who reads the body to its end
	ends    bool        // its connection is to end with it

	chat      bool // a chat completion: its answer is understood
	messages  bool // so is one in Anthropic's form, as far as it takes to know its end
	creates   bool // sent twice, it would leave two of something
	several   bool // more than one answer is asked for: none is looked into
	once      bool
	stream    bool
	model     string
	maxTokens int
	tools     bool
	reasoning bool
}

// newPassed takes a request apart. A body that can be had again is read.
func newPassed(req *http.Request) (*passed, []byte, error) {
	p := &passed{
		url: req.URL, method: req.Method, header: req.Header, host: req.Host, length: req.ContentLength,
		coding: req.TransferEncoding, trailer: req.Trailer, ends: req.Close,
		chat:     req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, chatPath),
		messages: isMessages(req.Method, req.URL.Path),
	}
	if p.method == "" {
		p.method = http.MethodGet
	}
	p.creates = creates(p.method, req.URL.Path) && req.Header.Get("Idempotency-Key") == ""
	if req.Body == nil || req.Body == http.NoBody {
		return p, nil, nil
	}
	if req.GetBody == nil {
		p.once, p.body, p.stream = true, req.Body, true
		return p, nil, nil
	}
	defer closeBody(req)
	body, err := readAll(req.Context(), req.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("its body cannot be read: %w", err)
	}
	if p.length = int64(len(body)); len(p.trailer) > 0 {
		p.length = -1 // only what comes in chunks has trailers
	}
	p.look(body)
	return p, body, nil
}

// readAll reads a body, as long as ctx lasts.
func readAll(ctx context.Context, body io.ReadCloser) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _, _ = contain(func() (any, error) { return nil, body.Close() }) })
	defer stop()
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := contain(func() ([]byte, error) { return io.ReadAll(body) })
		read <- result{data, err}
	}()
	select {
	case r := <-read:
		return r.data, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// creates reports whether a request leaves something behind, as a batch or a
// file. Answers of models, embeddings and the like do not.
func creates(method, path string) bool {
	if method != http.MethodPost && method != http.MethodPatch {
		return false
	}
	for _, end := range []string{"/completions", messagesPath, "/responses", "/embeddings", "/rerank", "/moderations", "/count_tokens",
		"/generate", "/infer", "/chat", "/tokenize", "/speech", "/transcriptions", "/translations", "/predict", "/invoke", "/converse"} {
		if strings.HasSuffix(path, end) {
			return false
		}
	}
	return !strings.Contains(path, ":") // Google's methods: generateContent, embedContent
}

// look reads what the clocks depend on, each member by itself: one that is odd
// must not hide the others. A body that is none of ours says nothing.
func (p *passed) look(body []byte) {
	var r map[string]json.RawMessage
	if json.Unmarshal(body, &r) != nil {
		return
	}
	_ = json.Unmarshal(r["model"], &p.model)
	_ = json.Unmarshal(r["stream"], &p.stream)
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		n, err := strconv.ParseFloat(strings.Trim(string(r[name]), `"`), 64)
		if err == nil && n > 0 && n < 1e9 {
			p.maxTokens = max(p.maxTokens, int(n))
		}
	}
	if n, err := strconv.ParseFloat(strings.Trim(string(r["n"]), `"`), 64); err == nil && n > 1 {
		p.several = true
	}
	p.tools = asksFor(r, toolFields...)
	p.reasoning = asksFor(r, reasoningFields...)
}

// request returns the request as an attempt sends it.
func (p *passed) request(ctx context.Context, watch *watch, body func() (io.ReadCloser, error)) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, p.method, p.url.String(), nil)
	if err != nil {
		return nil, errors.New("the request cannot be built")
	}
	if p.header != nil {
		req.Header = p.header.Clone()
	}
	req.Host, req.ContentLength, req.Close = p.host, p.length, p.ends
	req.TransferEncoding, req.Trailer = p.coding, p.trailer
	switch {
	case p.once:
		req.Body = told{p.body, watch}
	case p.length != 0:
		req.Body, _ = body()
		if p.header.Get("Idempotency-Key") == "" && p.header.Get("X-Idempotency-Key") == "" {
			req.GetBody = body
		}
	}
	return req, nil
}

// told is a body of an SDK's own. While it is being read it is the SDK that is
// waited for, and no clock of ours runs; what it gave has found its way to the
// network when more is asked for.
type told struct {
	io.ReadCloser
	watch *watch
}

func (t told) Read(p []byte) (int, error) {
	t.watch.tell((*meter).lend)
	defer t.watch.tell((*meter).giveBack)
	return contain(func() (int, error) { return t.ReadCloser.Read(p[:min(len(p), 32<<10)]) })
}

// A kept is a response whose attempt failed.
type kept struct {
	status int
	proto  string
	major  int
	minor  int
	header http.Header
	body   []byte
	broken bool // there is no body that could be shown
}

// keep returns the response of a failed attempt, or nil if none came. An error
// that came inside a 200 becomes a response with the status that it stands for.
// Another 200 that is no answer has no body but the error: SDKs would take what
// there is of it for one.
func (a *attempt) keep() *kept {
	if a.head == nil {
		return nil
	}
	h := a.head
	k := &kept{status: h.StatusCode, proto: h.Proto, major: h.ProtoMajor, minor: h.ProtoMinor, header: h.Header.Clone()}
	if to, err := h.Location(); err == nil && (to.Host != a.call.passed.url.Host || to.Scheme != a.call.passed.url.Scheme) &&
		(h.StatusCode == http.StatusTemporaryRedirect || h.StatusCode == http.StatusPermanentRedirect) {
		k.header.Del("Location") // the client above would take the prompt there, and keys that it does not know for such
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

// response returns it for the SDK to see.
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
