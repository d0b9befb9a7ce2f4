package llmclient_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
)

// An SDK may take its time with its own request. But once the server has answered
// it is the server that is waited for, whether or not the SDK is done.
func TestTransportAndAnUploadThatDoesNotEnd(t *testing.T) {
	early := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			c := http.NewResponseController(w)
			_ = c.EnableFullDuplex()
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			_ = c.Flush()
			<-r.Context().Done()
		}
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		after   time.Duration
		status  int    // 0 if there is no response
		says    string // the response, or the error
	}{
		"an error that does not end":    {early(503, "busy"), 5 * time.Second, 503, "busy"},
		"an answer that does not begin": {early(200, ""), 10 * time.Minute, 0, "clock FirstOutput"},
		"an answer that does not go on": {early(200, "begun"), 2 * time.Minute, 200, "clock Gap"},
	} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, handled(tc.handler), nil, func(t *testing.T, b *below) {
				upload, w := io.Pipe()
				defer w.Close()
				go func() { _, _ = io.WriteString(w, "x") }()
				resp, text, err := b.send(t, http.MethodPost, "/v1/files", upload)
				if tc.status > 0 {
					require.NotNil(t, resp)
					assert.Equal(t, tc.status, resp.StatusCode)
				}
				if err != nil {
					text = err.Error()
				}
				assert.Contains(t, text, tc.says)
				assert.Equal(t, tc.after, time.Since(b.start))
			})
		})
	}
	t.Run("before there is an answer", func(t *testing.T) {
		underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprint(w, n)
		}), nil, func(t *testing.T, b *below) {
			upload, w := io.Pipe()
			go func() {
				defer w.Close()
				for range 5 {
					time.Sleep(30 * time.Minute)
					_, _ = io.WriteString(w, "x")
				}
			}()
			_, text, err := b.send(t, http.MethodPost, "/v1/files", upload)
			require.NoError(t, err)
			assert.Equal(t, "5", text)
		})
	})
}

// An answer that begins before the request has ended, and goes on with it.
func TestTransportAndAnUploadThatIsAnsweredEarly(t *testing.T) {
	underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		_ = c.Flush()
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	}), nil, func(t *testing.T, b *below) {
		upload, w := io.Pipe()
		go func() {
			defer w.Close()
			for range 20 {
				_, _ = io.WriteString(w, "x")
				time.Sleep(9 * time.Minute)
			}
		}()
		_, text, err := b.send(t, http.MethodPost, "/v1/files", upload)
		require.NoError(t, err)
		assert.Equal(t, "20", text)
		assert.Equal(t, 3*time.Hour, time.Since(b.start))
	})
}

// While the SDK does not read, no clock runs, even if it is still sending.
func TestTransportAndAConsumerThatPausesBesideItsUpload(t *testing.T) {
	underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.EnableFullDuplex()
		_, _ = io.WriteString(w, "one ")
		_ = c.Flush()
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "two")
	}), nil, func(t *testing.T, b *below) {
		upload, w := io.Pipe()
		go func() {
			defer w.Close()
			for range 3 {
				_, _ = io.WriteString(w, "x")
				time.Sleep(time.Minute)
			}
		}()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.URL()+"/v1/files", upload)
		require.NoError(t, err)
		resp, err := b.client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		time.Sleep(2 * time.Hour)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "one two", string(text))
	})
}

// Trailers go both ways, and so does a request that wants its connection closed.
func TestTransportPassesTrailers(t *testing.T) {
	for name, body := range map[string]io.Reader{"sent once": io.NopCloser(strings.NewReader("body")), "sent again": strings.NewReader("body")} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				w.Header().Set("Trailer", "X-Sum")
				_, _ = fmt.Fprintf(w, "%s, %s, %v", text, r.Trailer.Get("X-Sum"), r.Close)
				_ = http.NewResponseController(w).Flush()
				w.Header().Set("X-Sum", "43")
				w.Header().Set(http.TrailerPrefix+"X-Status", "0") // as gRPC does, unannounced
			}), nil, func(t *testing.T, b *below) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.URL()+"/v1/files", body)
				require.NoError(t, err)
				req.Trailer = http.Header{"X-Sum": {"42"}}
				req.Close = true
				resp, err := b.client.Do(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, "body, 42, true", string(text))
				assert.Equal(t, "43", resp.Trailer.Get("X-Sum"))
				assert.Equal(t, "0", resp.Trailer.Get("X-Status"))
			})
		})
	}
}

// A request whose body panics is refused, wherever the body is read.
func TestTransportAndABodyThatPanics(t *testing.T) {
	for name, again := range map[string]bool{"read here": true, "read by the transport": false} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, script(fake.Answer("ok")), nil, func(t *testing.T, b *below) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.BaseURL()+"/chat/completions", strings.NewReader(plainBody))
				require.NoError(t, err)
				if !again {
					req.GetBody = nil
				}
				req.Body = io.NopCloser(brokenBody(func([]byte) (int, error) { panic("broken") }))
				_, err = b.client.Do(req)
				assert.ErrorContains(t, err, "panicked: broken")
			})
		})
	}
}

// A closed body gives no more bytes, even if they had come already.
func TestTransportAndAReadAfterClose(t *testing.T) {
	for name, body := range map[string]string{"a stream": streamBody, "one value": plainBody} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, script(fake.Answer("one two three")), nil, func(t *testing.T, b *below) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.BaseURL()+"/chat/completions", strings.NewReader(body))
				require.NoError(t, err)
				resp, err := b.client.Do(req)
				require.NoError(t, err)
				_, err = resp.Body.Read(make([]byte, 3))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				n, err := resp.Body.Read(make([]byte, 3))
				assert.Error(t, err)
				assert.Zero(t, n)
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}
