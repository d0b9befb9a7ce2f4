package llmclient_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/breaker"
	"github.com/neverhang/neverhang/llmclient"
)

// A file is a body as large as one likes of which hardly anything is in memory. It
// notes how far it has been read.
type file struct {
	size, at int64
	most     *atomic.Int64
	closed   *atomic.Int64
}

func (f *file) Read(p []byte) (int, error) {
	if f.at == f.size {
		return 0, io.EOF
	}
	n := min(int64(len(p)), f.size-f.at)
	clear(p[:n])
	f.at += n
	f.most.Store(max(f.most.Load(), f.at))
	return int(n), nil
}

func (f *file) Close() error { f.closed.Add(1); return nil }

// A body that can be had again, for a path whose requests are not understood, is
// asked for anew for each attempt and held by nobody.
func TestTransportLeavesFilesWhereTheyAre(t *testing.T) {
	const size = 64 << 20
	var gets, closed, most atomic.Int64
	var started int
	underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
		if started++; started < 3 {
			w.WriteHeader(503) // before it has read the file
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		assert.EqualValues(t, size, n)
		_, _ = io.WriteString(w, `{"text":"hello"}`)
	}), nil, func(t *testing.T, b *below) {
		var unread atomic.Int64
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.URL()+"/v1/audio/transcriptions", &file{size, 0, &unread, &closed})
		require.NoError(t, err)
		req.ContentLength = size
		req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		req.GetBody = func() (io.ReadCloser, error) {
			if gets.Add(1) < 3 {
				var early atomic.Int64
				return &file{size, 0, &early, &closed}, nil
			}
			return &file{size, 0, &most, &closed}, nil
		}
		resp, err := b.client.Do(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, `{"text":"hello"}`, string(text))
		_ = resp.Body.Close()
		assert.EqualValues(t, 3, gets.Load(), "bodies, one for each attempt")
		assert.Zero(t, unread.Load(), "of the body that came with the request")
		assert.EqualValues(t, size, most.Load())
		assert.EqualValues(t, 4, closed.Load(), "bodies that were closed")
	})
}

// A body that cannot be had is the SDK's fault: nothing is repeated, and nothing is
// held against the endpoint.
func TestTransportAndABodyThatCannotBeHad(t *testing.T) {
	broken := errors.New("disk broken")
	for name, get := range map[string]func() (io.ReadCloser, error){
		"an error":       func() (io.ReadCloser, error) { return nil, broken },
		"nothing at all": func() (io.ReadCloser, error) { return nil, nil },
		"a panic":        func() (io.ReadCloser, error) { panic(broken) },
		"a broken file": func() (io.ReadCloser, error) {
			return io.NopCloser(brokenBody(func([]byte) (int, error) { return 0, broken })), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
				func(c *llmclient.Config) { c.Breaker.Failures = 1 }, func(t *testing.T, b *below) {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.URL()+"/v1/audio/transcriptions", strings.NewReader("x"))
					require.NoError(t, err)
					tries := 0
					req.GetBody = func() (io.ReadCloser, error) { tries++; return get() }
					_, err = b.client.Do(req)
					failure(t, err, llmclient.ErrRequest)
					assert.ErrorContains(t, err, "the request's body cannot be read")
					assert.Equal(t, 1, tries)
					assert.Equal(t, breaker.Closed, b.tr.Clients()[0].Breaker().State)
				})
		})
	}
}

// What is sent unread may reason, for all that is known, and call tools. JSON of
// ordinary size is looked into, and that which does neither is not waited for so long.
func TestTransportIsPatientWithWhatItHasNotRead(t *testing.T) {
	for name, tc := range map[string]struct {
		kind  string
		body  []byte
		pause time.Duration
		fails bool
	}{
		"a file":               {"application/octet-stream", []byte("x"), 5 * time.Minute, false},
		"a file, and too long": {"application/octet-stream", []byte("x"), 10*time.Minute + time.Second, true},
		"large JSON":           {"application/json", bytes.Repeat([]byte(" "), 9<<20), 5 * time.Minute, false},
		"JSON with tools":      {"application/json", []byte(`{"stream":true,"tools":[{"type":"web_search"}]}`), 5 * time.Minute, false},
		"plain JSON":           {"application/json", []byte(`{"stream":true}`), 119 * time.Second, false},
		"plain JSON, too long": {"application/json", []byte(`{"stream":true}`), 121 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			underSDK(t, handled(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, "one")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(tc.pause):
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, " two")
			}), nil, func(t *testing.T, b *below) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.srv.URL()+"/v1/responses", bytes.NewReader(tc.body))
				require.NoError(t, err)
				req.Header.Set("Content-Type", tc.kind)
				resp, err := b.client.Do(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				if tc.fails {
					e := failure(t, err, llmclient.ErrTimeout)
					assert.Equal(t, llmclient.ClockGap, e.Clock)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, "one two", string(text))
			})
		})
	}
}
