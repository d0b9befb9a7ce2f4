package llmclient_test

import (
	"context"
	"net/http"
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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type deafBody struct{ release chan struct{} }

func (b deafBody) Read([]byte) (int, error) { <-b.release; return 0, http.ErrBodyReadAfterClose }
func (b deafBody) Close() error             { return nil }
