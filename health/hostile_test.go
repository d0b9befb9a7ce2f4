package health_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// stuck is a client whose calls wait since a moment.
type stuck struct{ since time.Time }

func (s stuck) InFlight() (list []llmclient.InFlight) {
	for i := range 3 {
		list = append(list, llmclient.InFlight{Call: uint64(i), Caller: fmt.Sprint(i), Phase: llmclient.PhaseFirstOutput, Since: s.since, PromptBytes: 1000})
	}
	return list
}

// hosts notes which hosts are asked.
type hosts struct {
	http.RoundTripper
	mu   sync.Mutex
	seen map[string]int
}

func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	h.seen[r.URL.Host]++
	h.mu.Unlock()
	return h.RoundTripper.RoundTrip(r)
}

func (h *hosts) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.seen))
}

// pages answers some paths, and 404 to all others.
type pages map[string]http.HandlerFunc

func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := p[r.URL.Path]
	if f == nil {
		http.NotFound(w, r)
		return
	}
	f(w, r)
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

// pour writes a text again and again, up to so many bytes, every so often.
func pour(s string, most int, every time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for n := 0; n < most && r.Context().Err() == nil; n += len(s) {
			if _, err := io.WriteString(w, s); err != nil {
				return
			}
			if every > 0 {
				w.(http.Flusher).Flush()
				rest(r.Context(), every)
			}
		}
	}
}

// each answers the n-th request, from 0, by n.
func each(f func(n int) string) http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(w, f(n))
		n++
	}
}

// Whatever a server answers takes bounded time and memory, and has a name.
func TestHostileServers(t *testing.T) {
	sglang := text(`{"data":[{"id":"m","owned_by":"sglang"}]}`)
	vllm := "vllm:num_requests_running 3\nvllm:num_requests_waiting 0\nvllm:generation_tokens_total 100\n"
	// More than is read, but for the race detector, which is slow at it.
	big := 64 << 20
	if underRace {
		big = 1 << 20
	}
	mebi := strings.Repeat("x", 1<<20)
	workers := func(urls ...string) http.HandlerFunc {
		var list []string
		for _, u := range urls {
			list = append(list, fmt.Sprintf(`{"url":%q,"worker_type":"decode","is_healthy":true}`, u))
		}
		return text(`{"workers":[` + strings.Join(list, ",") + `]}`)
	}
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("http://worker-%d:30000", i))
	}
	tests := map[string]struct {
		pages pages
		want  []health.State
		tells string   // what the page of the verdict says, among others
		not   string   // and what it does not
		hosts []string // that are asked beside the server itself; nil is none
		most  int      // if there are too many to name
	}{
		"a page of 64 megabytes": {
			pages{"/metrics": func(w http.ResponseWriter, r *http.Request) {
				text(vllm)(w, r)
				pour("junk{a=\"b\"} 1\n"+strings.Repeat("# HELP junk x\n", 5000), big, 0)(w, r)
			}}, states(health.StateWedgedEngine), "running 3 then 3", "", nil, 0,
		},
		"64 megabytes of series that are known": {
			pages{"/metrics": pour(strings.Repeat(vllm, 1000), big, 0)},
			states(health.StateCannotTell, health.StateWedgedEngine), "vllm", "", nil, 0,
		},
		"a page that drips": {
			pages{"/metrics": pour("vllm:num_requests_running 3\n", math.MaxInt32, time.Second)},
			states(health.StateCannotTell), "answers, and tells no metrics", "", nil, 0,
		},
		"a page that never ends": {
			pages{"/metrics": func(w http.ResponseWriter, r *http.Request) {
				text(vllm)(w, r)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}}, states(health.StateCannotTell), "answers, and tells no metrics", "", nil, 0,
		},
		"headers that never end": {
			pages{"/metrics": func(w http.ResponseWriter, r *http.Request) {
				conn, buf, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				defer conn.Close()
				for err == nil && r.Context().Err() == nil {
					_, err = buf.WriteString("X-More: and more\r\n")
					_ = buf.Flush()
					rest(r.Context(), 100*time.Millisecond)
				}
			}, "/v1/models": sglang}, states(health.StateUnreachable, health.StateCannotTell), "", "", nil, 0,
		},
		"a gzip bomb": {
			pages{"/metrics": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, vllm)
				for range big >> 20 {
					if _, err := io.WriteString(z, mebi); err != nil {
						return
					}
				}
				_ = z.Close()
			}}, states(health.StateWedgedEngine), "running 3 then 3", "", nil, 0,
		},
		"numbers that are none": {
			pages{"/metrics": text("vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\nvllm:generation_tokens_total -7\nvllm:prompt_tokens_total 1e300\n")},
			states(health.StateCannotTell), "", "NaN", nil, 0,
		},
		"counters that go back at each sample, as of several behind one address": {
			pages{"/metrics": each(func(n int) string {
				return fmt.Sprintf("sglang:num_running_reqs 1\nsglang:generation_tokens_total %d\n", 1000+500*(n%2)+n)
			})}, states(health.StateCannotTell), "a Target for each server behind that address", "", nil, 0,
		},
		"thousands of labels": {
			pages{"/metrics": each(func(n int) string {
				var b strings.Builder
				for i := range 2_000 {
					fmt.Fprintf(&b, "vllm:num_requests_running{user=\"%d\",n%d=\"x\"} 0\n", i, i%500)
				}
				return b.String()
			})}, states(health.StateLost, health.StateCannotTell), "running 0 then 0", "", nil, 0,
		},
		"families that are told twice": {
			pages{"/metrics": text("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"1\"} 2\n# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total 5\n")},
			states(health.StateWedgedEngine), "running 5 then 5", "", nil, 0,
		},
		"types that are wrong": {
			pages{"/metrics": text("# TYPE vllm:num_requests_running histogram\nvllm:num_requests_running 3\n# TYPE vllm:generation_tokens_total summary\nvllm:generation_tokens_total{quantile=\"x\"} 5\n")},
			states(health.StateCannotTell, health.StateLost), "", "", nil, 0,
		},
		"OpenMetrics": {
			pages{"/metrics": text("# HELP vllm:generation_tokens Tokens.\n# TYPE vllm:generation_tokens counter\n# UNIT vllm:generation_tokens tokens\nvllm:generation_tokens_total 100.0 # {trace_id=\"abc\"} 1.0 1700000000.0\nvllm:generation_tokens_created 1.7e9\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\nvllm:num_requests_waiting 0\n# EOF\n")},
			states(health.StateWedgedEngine), "running 3 then 3", "", nil, 0,
		},
		"a page for people": {
			pages{"/metrics": text("<!doctype html><html><body>vllm:num_requests_running 3</body></html>")},
			states(health.StateCannotTell), "answers, and tells no metrics", "", nil, 0,
		},
		"everything wants a key": {
			pages{"/metrics": status(401), "/v1/models": status(401)}, states(health.StateCannotTell), "answers, and tells no metrics", "", nil, 0,
		},
		"nothing is there": {pages{}, states(health.StateCannotTell), "answers, and tells no metrics", "", nil, 0},
		"sent elsewhere": {
			pages{"/metrics": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://elsewhere/metrics", http.StatusFound)
			}},
			states(health.StateCannotTell), "", "elsewhere", nil, 0,
		},
		"settings of 64 megabytes": {
			pages{"/v1/models": sglang, "/server_info": pour(`{"a":"`+mebi[:1000], big, 0)}, states(health.StateCannotTell), "", "", nil, 0,
		},
		"settings a million deep": {
			pages{"/v1/models": sglang, "/server_info": text(strings.Repeat(`{"a":`, 150_000) + "1" + strings.Repeat("}", 150_000))}, states(health.StateCannotTell), "", "", nil, 0,
		},
		"settings that are none": {
			pages{"/v1/models": sglang, "/server_info": text("\x00\xff<>"), "/model_info": text(`["a"]`)}, states(health.StateCannotTell), "", "", nil, 0,
		},
		"models that are none": {
			pages{"/v1/models": text(`{"data":[{"id":7},{"id":"` + mebi + `"}]}`)}, states(health.StateCannotTell), "", "", nil, 0,
		},
		"another kind of server at every sample": {
			pages{"/metrics": each(func(n int) string {
				return []string{vllm, "sglang:num_running_reqs 2\nsglang:generation_tokens_total 7\n", "tgi_batch_current_size 1\n"}[n%3]
			})}, states(health.StateCannotTell), "", "", nil, 0,
		},
		"a router that names itself, by other names": {
			pages{"/workers": workers("http://model.test", "http://localhost", "http://[::1]:80/"), "/v1/models": sglang},
			states(health.StateCannotTell), "", "localhost", []string{"[::1]:80", "localhost"}, 0,
		},
		"a router that names what no worker is": {
			pages{"/workers": workers("http://169.254.169.254/latest", "http://[::ffff:169.254.169.254]", "http://[fe80::1]", "http://0.0.0.0:1", "grpc://10.0.0.1", "file:///etc/passwd", "http://", "::", "\u0000")},
			states(health.StateCannotTell), "", "169.254", nil, 0,
		},
		"a router with a thousand workers": {
			pages{"/workers": workers(many...)}, states(health.StateCannotTell), "", "", nil, 32,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := fakeserver.New(fakeserver.Config{Handler: tt.pages})
				defer srv.Close()
				tr := srv.Transport()
				tr.DisableKeepAlives = true
				tr.MaxResponseHeaderBytes = 64 << 10
				asked := &hosts{RoundTripper: tr, seen: make(map[string]int)}
				mon, err := health.New(health.Config{
					Targets:    []health.Target{{URL: "http://model.test", APIKey: "sk-secret"}},
					HTTPClient: &http.Client{Transport: asked},
				})
				require.NoError(t, err)
				defer mon.Close()
				mon.Watch(stuck{time.Now()})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				var v health.Verdict
				for range 5 {
					start := time.Now()
					v = mon.Check(t.Context())
					// What a router names is asked after it has been.
					assert.LessOrEqual(t, time.Since(start), 12*time.Second)
					time.Sleep(10 * time.Second)
				}
				runtime.ReadMemStats(&after)
				if !underRace {
					assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30), "bytes, in five samples and what they were made of")
				}
				page := v.String()
				assert.Contains(t, tt.want, v.State, page)
				assert.Contains(t, page, tt.tells)
				if tt.not != "" {
					assert.NotContains(t, page, tt.not)
				}
				assert.NotContains(t, page, "sk-secret")
				list := slices.DeleteFunc(asked.list(), func(h string) bool { return h == "model.test" })
				if tt.most > 0 {
					assert.LessOrEqual(t, len(list), tt.most)
				} else {
					assert.ElementsMatch(t, tt.hosts, list)
				}
				for _, s := range mon.Servers() {
					assert.LessOrEqual(t, len(s.Labels), 32)
					assert.LessOrEqual(t, len(s.Models), 100)
				}
			})
		})
	}
}

// refusing is a transport on which nothing is reached.
type refusing struct{ err error }

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.err }

func TestNamesThatStandForNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no such name":                      {&net.DNSError{Err: "no such host", Name: "model.test", IsNotFound: true}, "its name is not known"},
		"a name without an address":         {&net.DNSError{Err: "no suitable address found", Name: "model.test"}, "its name is not known"},
		"the name server does not answer":   {&net.DNSError{Err: "timeout", Name: "model.test", IsTimeout: true}, "no connection"},
		"a transport that says nothing":     {io.ErrUnexpectedEOF, "no connection"},
		"a transport that ends the context": {context.Canceled, "no connection"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mon, err := health.New(health.Config{
					Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: refusing{tt.err}},
				})
				require.NoError(t, err)
				defer mon.Close()
				mon.Watch(stuck{time.Now()})
				for range 3 {
					mon.Check(t.Context())
					time.Sleep(10 * time.Second)
				}
				v := mon.Check(t.Context())
				assert.Equal(t, health.StateUnreachable, v.State, "%s", v)
				assert.Contains(t, v.String(), tt.want)
			})
		})
	}
}

// A page of metrics that begins to hang is not the server's end: another question
// is answered all the while.
func TestOnlyThePageOfMetricsHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		srv := fakeserver.New(fakeserver.Config{Handler: pages{
			"/metrics": func(w http.ResponseWriter, r *http.Request) {
				if hangs.Load() {
					<-r.Context().Done()
					return
				}
				text("vllm:num_requests_running 0\n")(w, r)
			},
			"/health": text(""),
		}})
		defer srv.Close()
		tr := srv.Transport()
		tr.DisableKeepAlives = true
		mon, err := health.New(health.Config{Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: tr}})
		require.NoError(t, err)
		defer mon.Close()
		mon.Watch(stuck{time.Now()})
		time.Sleep(15 * time.Second)
		hangs.Store(true)
		for range 20 {
			time.Sleep(10 * time.Second)
			assert.NotEqual(t, health.StateUnreachable, mon.Verdict().State, "%s", mon.Verdict())
		}
	})
}

// Workers that mean nothing here are asked once, and not at every sample.
func TestWorkersThatCannotBeReachedAreLeftAlone(t *testing.T) {
	// How often it may be asked in nine minutes.
	for name, most := range map[string]int64{"no way there": 1, "nobody listens there yet": 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				router := pages{"/workers": text(`{"workers":[{"url":"http://10.0.0.1:30000","worker_type":"decode"}]}`), "/readiness": text("")}
				srv := fakeserver.New(fakeserver.Config{Handler: router})
				defer srv.Close()
				var asked atomic.Int64
				tr := srv.Transport()
				tr.DisableKeepAlives = true
				tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
					if !strings.HasPrefix(addr, "10.") {
						return srv.DialContext(ctx, network, addr)
					}
					asked.Add(1)
					if most > 1 {
						return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
					}
					rest(ctx, 5*time.Second)
					return nil, context.DeadlineExceeded
				}
				mon, err := health.New(health.Config{Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: tr}})
				require.NoError(t, err)
				defer mon.Close()
				mon.Watch(stuck{time.Now()})
				time.Sleep(9 * time.Minute)
				assert.NotZero(t, asked.Load())
				assert.LessOrEqual(t, asked.Load(), 2*most, "metrics and models")
			})
		})
	}
}
