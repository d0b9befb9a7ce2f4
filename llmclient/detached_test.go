package llmclient_test

import (
	"context"
	"errors"
	"io"
	"log"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// A transport that does not hear contexts cannot hold a call, neither before
// the head nor in the body.
func TestATransportThatIgnoresContexts(t *testing.T) {
	for name, hold := range map[string]func(release chan struct{}) roundTripper{
		"in RoundTrip": func(release chan struct{}) roundTripper {
			return func(*http.Request) (*http.Response, error) { <-release; return nil, http.ErrHandlerTimeout }
		},
		"in Read": func(release chan struct{}) roundTripper {
			return func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: deafBody{release}, Request: r}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := func() {}
			inWorld(t, fake.Config{}, func(c *llmclient.Config) {
				ch := held(&release)
				c.HTTPClient.Transport = hold(ch)
				c.Clocks.Call.Limit = 5 * time.Second
			}, func(t *testing.T, w *world) {
				defer func() { release() }()
				_, err := w.client.Chat(t.Context(), hello())
				require.Equal(t, llmclient.ClockCall, failure(t, err, llmclient.ErrTimeout).Clock)
				w.elapsed(5 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err = w.client.Chat(ctx, hello())
				failure(t, err, llmclient.ErrDeadline)
				w.elapsed(7 * time.Second)
			})
		})
	}
}

// held makes a channel and a function that closes it.
func held(release *func()) chan struct{} {
	ch := make(chan struct{})
	*release = func() { close(ch) }
	return ch
}

func TestATransportThatPanics(t *testing.T) {
	c, err := llmclient.New(llmclient.Config{
		BaseURL: "http://x.test/v1", Model: "m", Retry: llmclient.Retry{Attempts: 1},
		HTTPClient: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { panic("broken") })},
	})
	require.NoError(t, err)
	_, err = c.Chat(t.Context(), hello())
	failure(t, err, llmclient.ErrNetwork)
	assert.ErrorContains(t, err, "panicked: broken")
	require.NoError(t, c.Close())
}

// What a transport must not do, but some do, is an error of the call and no more.
func TestTransportsThatBreakTheirContract(t *testing.T) {
	const broke, strange = llmclient.ErrIncomplete, llmclient.ErrMalformed
	body := func(read func(p []byte) (int, error)) io.ReadCloser { return brokenBody(read) }
	text := func() io.ReadCloser { return io.NopCloser(strings.NewReader("x")) }
	for name, tc := range map[string]struct {
		resp http.Response
		err  error
		none bool
		want llmclient.Kind
	}{
		"a count beyond the buffer": {resp: http.Response{StatusCode: 200, Body: body(func(p []byte) (int, error) { return len(p) + 1, nil })}, want: broke},
		"a count beyond memory":     {resp: http.Response{StatusCode: 200, Body: body(func([]byte) (int, error) { return math.MaxInt, nil })}, want: broke},
		"a count below zero":        {resp: http.Response{StatusCode: 200, Body: body(func([]byte) (int, error) { return -1, nil })}, want: broke},
		"nothing, for ever":         {resp: http.Response{StatusCode: 200, Body: body(func([]byte) (int, error) { return 0, nil })}, want: broke},
		"a panic":                   {resp: http.Response{StatusCode: 200, Body: body(func([]byte) (int, error) { panic("broken") })}, want: broke},
		"no body":                   {resp: http.Response{StatusCode: 200}, want: llmclient.ErrEmpty},
		"no status":                 {resp: http.Response{Body: text()}, want: strange},
		"a status below zero":       {resp: http.Response{StatusCode: -1, Body: text()}, want: strange},
		"a status beyond all":       {resp: http.Response{StatusCode: 999, Body: text()}, want: llmclient.ErrServer},
		"neither":                   {none: true, want: llmclient.ErrNetwork},
		"both":                      {resp: http.Response{StatusCode: 200, Body: text()}, err: errors.New("broken"), want: llmclient.ErrNetwork},
		"a redirect from nowhere":   {resp: http.Response{StatusCode: 307, Header: http.Header{"Location": {"/elsewhere"}}, Body: text()}, want: llmclient.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			log.SetOutput(io.Discard) // net/http has something to say about it
			defer log.SetOutput(os.Stderr)
			inWorld(t, fake.Config{}, func(c *llmclient.Config) {
				c.Retry.Attempts = 1
				c.HTTPClient.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
					if tc.none {
						return nil, nil
					}
					resp := tc.resp
					return &resp, tc.err
				})
			}, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				failure(t, err, tc.want)
			})
		})
	}
}

type brokenBody func([]byte) (int, error)

func (b brokenBody) Read(p []byte) (int, error) { return b(p) }
func (b brokenBody) Close() error               { panic("broken") }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type deafBody struct{ release chan struct{} }

func (b deafBody) Read([]byte) (int, error) { <-b.release; return 0, http.ErrBodyReadAfterClose }
func (b deafBody) Close() error             { return nil }
