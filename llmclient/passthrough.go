package llmclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A passthrough is a request of an SDK above.
type passthrough struct {
	url    *url.URL
	method string
	header http.Header
	host   string
	body   io.ReadCloser                 // if once is set
	again  func() (io.ReadCloser, error) // if the body is not read: returns it for each attempt
	length int64
	coding []string

	trailer http.Header // filled in when the body has been read to its end
	ends    bool        // the connection is to be closed after it

	chat      bool // a chat completion: its answer is decoded
	messages  bool // for Anthropic's Messages: its answer is decoded as far as needed
	creates   bool // it creates something: sent twice, there would be two
	several   bool // it asks for more than one answer: none is decoded
	once      bool // the body can be sent only once
	stream    bool
	model     string
	maxTokens int
	tools     bool
	reasoning bool
}

// maxPeek bounds the bodies for other paths that are read.
const maxPeek = 8 << 20

// newPassthrough looks at a request. It reads the body of a chat completion, of
// Anthropic's Messages, and of other JSON up to maxPeek, for what the clocks depend
// on. Other bodies are not read here: GetBody gives them out for each attempt, and
// without it there is one attempt.
func newPassthrough(req *http.Request) (*passthrough, []byte, error) {
	p := &passthrough{
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
	unread := !p.chat && !p.messages && (!isJSON(req.Header) || p.length <= 0 || p.length > maxPeek)
	if len(p.trailer) > 0 {
		p.length = -1 // only what comes in chunks has trailers
	}
	if req.GetBody == nil || unread && len(p.trailer) > 0 { // only this body fills in the trailers
		p.once, p.body, p.stream = true, req.Body, true
		return p, nil, nil
	}
	defer closeBody(req)
	if unread {
		// It may ask for anything, so the clocks are patient.
		p.again, p.stream, p.reasoning = req.GetBody, true, true
		return p, nil, nil
	}
	body, err := readAll(req.Context(), req.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("its body cannot be read: %w", err)
	}
	if len(p.trailer) == 0 {
		p.length = int64(len(body))
	}
	p.look(body)
	return p, body, nil
}

// unread reports whether the body has not been read.
func (p *passthrough) unread() bool { return p.once || p.again != nil }

// isJSON reports whether a header announces JSON.
func isJSON(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
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

// creates reports whether a request creates something that stays, as a batch or a
// file. Requests for answers, embeddings and the like do not.
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

// look reads the members on which the clocks depend, each by itself, so that an odd
// one does not hide the others. It ignores a body that is no JSON object.
func (p *passthrough) look(body []byte) {
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
func (p *passthrough) request(ctx context.Context, watch *watch, body func() (io.ReadCloser, error)) (*http.Request, error) {
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
	case p.again != nil:
		get := func() (io.ReadCloser, error) {
			body, err := contain(p.again)
			if err == nil && body == nil {
				err = errors.New("GetBody returned none")
			}
			return told{body, watch}, err
		}
		if req.Body, err = get(); err != nil {
			return nil, &bodyError{err}
		}
		if !idempotent(p.header) {
			req.GetBody = get
		}
	case p.length != 0:
		req.Body, _ = body()
		if !idempotent(p.header) {
			req.GetBody = body
		}
	}
	return req, nil
}

// told is a body that the SDK gives out. While it is being read the call waits for
// the SDK, and no clock runs. Each Read shows that the bytes before it have been
// written to the network.
type told struct {
	io.ReadCloser
	watch *watch
}

func (t told) Read(p []byte) (int, error) {
	t.watch.tell((*meter).lend)
	defer t.watch.tell((*meter).giveBack)
	n, err := contain(func() (int, error) { return t.ReadCloser.Read(p[:min(len(p), 32<<10)]) })
	if err != nil && err != io.EOF {
		err = &bodyError{err}
	}
	return n, err
}

func (t told) Close() error {
	_, err := contain(func() (any, error) { return nil, t.ReadCloser.Close() })
	return err
}

// A bodyError is what an SDK's own body met when it was read.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "the request's body cannot be read: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }
