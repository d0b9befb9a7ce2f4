package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// A Dialect is whose endpoints and metrics a server speaks beside the common
// ones.
type Dialect string

// The dialects.
const (
	SGLang Dialect = "sglang"
	VLLM   Dialect = "vllm"
)

// ServerConfig sets up a [Server]. The zero value serves a zero [Config] as
// SGLang does.
type ServerConfig struct {
	Engine Config

	// Dialect is SGLang or VLLM. Empty means SGLang, whose router and split
	// sides the engine then has as well.
	Dialect Dialect

	// Version is what it says its version is. Empty means 0.0.0-sim.
	Version string

	// Info is added to what /server_info tells, such as settings.
	Info map[string]any

	// EarlyHeaders sends a stream's headers when the request is queued, as
	// vLLM does. Otherwise they come with the first token.
	EarlyHeaders bool

	// PlainHealth answers /health 200 as long as the process lives. Otherwise
	// SGLang's makes a token. vLLM's is always plain.
	PlainHealth bool

	// NoMetrics answers /metrics 404, as SGLang does unless told otherwise.
	NoMetrics bool

	// NoStartTime leaves the start of the process out of the metrics.
	NoStartTime bool

	// Answer, if not nil, says what is answered to the body of a request, for
	// example the Say of a fakeserver.Author. It runs in the goroutine of the
	// request and must not keep the body. Such an answer has a token for
	// every four bytes, whatever max_tokens asks for.
	Answer func(body []byte) *chat.Response
}

// check looks at what a core does not. Its own config has been checked.
func (cfg ServerConfig) check() error {
	if cfg.Dialect != SGLang && cfg.Dialect != VLLM {
		return fmt.Errorf("engine: Dialect is %q, want %q or %q", cfg.Dialect, SGLang, VLLM)
	}
	if cfg.Dialect == VLLM && (cfg.Engine.Split != nil || cfg.Engine.Router != nil) {
		return fmt.Errorf("engine: Dialect is %q, want %q for Split and Router", cfg.Dialect, SGLang)
	}
	if _, err := json.Marshal(cfg.Info); err != nil {
		return fmt.Errorf("engine: Info: %w", err)
	}
	return nil
}

// A Server puts a [Core] on the clock and behind HTTP. It is safe for
// concurrent use.
//
// One goroutine moves the engine, by one timer. In a synctest bubble a server
// must be made, used and closed inside.
type Server struct {
	cfg   ServerConfig
	start time.Time
	kick  chan struct{}
	done  chan struct{}
	wg    sync.WaitGroup
	once  sync.Once

	mu      sync.Mutex
	core    *Core
	due     time.Duration // what the goroutine sleeps until
	onDown  func(Side)
	urls    map[Side]string // of the sides, if they are known
	stalled []query
	wakes   []*stream // scratch
}

// New returns a server with nothing to reach it by: see [Server.Handler] and
// [Start].
func New(cfg ServerConfig) (*Server, error) {
	core, err := NewCore(cfg.Engine)
	if err != nil {
		return nil, err
	}
	if cfg.Dialect == "" {
		cfg.Dialect = SGLang
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Version == "" {
		cfg.Version = "0.0.0-sim"
	}
	cfg.Engine = core.Config()
	cfg.Info = maps.Clone(cfg.Info)
	s := &Server{
		cfg: cfg, core: core, start: time.Now(),
		kick: make(chan struct{}, 1), done: make(chan struct{}),
	}
	s.wg.Go(s.run)
	return s, nil
}

// Close stops the engine. Requests under way are not answered any more; they
// end with their contexts. It may be called several times.
func (s *Server) Close() {
	s.once.Do(func() { close(s.done) })
	s.wg.Wait()
}

// settle tells the server where its sides are, and has f told of each side
// whose process goes away.
func (s *Server) settle(urls map[Side]string, f func(Side)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.urls, s.onDown = urls, f
}

// where returns the address of a side.
func (s *Server) where(side Side) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if url := s.urls[side]; url != "" {
		return url
	}
	return "http://" + host(side)
}

// run moves the engine.
func (s *Server) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.done:
			return
		}
		died, tell, wait := s.step()
		for _, side := range died {
			tell(side)
		}
		// Nothing to wait for is not a long wait: in a bubble, time would pass.
		if timer.Stop(); wait != never {
			timer.Reset(wait)
		}
	}
}

// step lets happen what is due, and returns how long it takes until something
// is again.
func (s *Server) step() (died []Side, tell func(Side), wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.catchUpLocked()
	if s.onDown != nil {
		died = s.core.died()
	}
	next, ok := s.core.Next()
	if !ok {
		s.due = never
		return died, s.onDown, never
	}
	s.due = next
	return died, s.onDown, next - now
}

// catchUpLocked brings the engine up to now. Whoever looks at it does this
// first, so that what it finds does not depend on which goroutine came first
// at that moment.
func (s *Server) catchUpLocked() time.Duration {
	now := s.now()
	for _, o := range s.core.Advance(now) {
		if st, ok := o.Call.Tag.(*stream); ok {
			st.hearLocked(o)
			if !st.listed {
				st.listed = true
				s.wakes = append(s.wakes, st)
			}
		}
	}
	for i, st := range s.wakes {
		st.listed = false
		st.tell()
		s.wakes[i] = nil
	}
	s.wakes = s.wakes[:0]
	if len(s.stalled) > 0 {
		s.stalled = slices.DeleteFunc(s.stalled, func(q query) bool {
			if s.core.halted(s.core.worker(q.side)) {
				return false
			}
			close(q.answered)
			return true
		})
	}
	return now
}

// A query is a question that only a scheduler can answer.
type query struct {
	side     Side
	answered chan struct{}
}

// ask waits until a side's scheduler works. It returns false if the client
// has left before.
func (s *Server) ask(ctx context.Context, side Side) bool {
	q := query{side, make(chan struct{})}
	s.mu.Lock()
	s.stalled = append(s.stalled, q)
	s.catchUpLocked()
	s.mu.Unlock()
	select {
	case <-q.answered:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = slices.DeleteFunc(s.stalled, func(other query) bool { return other == q })
	return false
}

func (s *Server) now() time.Duration { return time.Since(s.start) }

// Now returns the time since the engine's start, which its settings count in.
func (s *Server) Now() time.Duration { return s.now() }

// submit puts a request to the engine.
func (s *Server) submit(r Request, st *stream) {
	s.mu.Lock()
	st.call = s.core.Submit(s.catchUpLocked(), r)
	st.call.Tag = st
	s.kickLocked()
	s.mu.Unlock()
}

// abort tells the engine that a client has left.
func (s *Server) abort(st *stream) {
	s.mu.Lock()
	s.core.Abort(s.catchUpLocked(), st.call)
	s.kickLocked()
	s.mu.Unlock()
}

func (s *Server) kickLocked() {
	if next, ok := s.core.Next(); ok && next < s.due {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}

// Stats returns how a side stands now.
func (s *Server) Stats(side Side) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUpLocked()
	return s.core.Stats(side)
}

// Front returns what the front door has seen.
func (s *Server) Front() FrontStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUpLocked()
	return s.core.Front()
}

// Record returns what the engine has been good for so far.
func (s *Server) Record() Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUpLocked()
	return s.core.Record()
}

// Live returns how many requests have not ended for the engine.
func (s *Server) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catchUpLocked()
	return s.core.Live()
}

// A stream is what a handler hears of its request.
type stream struct {
	call  *Call
	ready chan struct{}

	// Guarded by the server's mutex.
	listed bool
	taken  bool
	fresh  int // tokens not yet written
	end    Result
}

func newStream() *stream { return &stream{ready: make(chan struct{}, 1)} }

func (st *stream) hearLocked(o Output) {
	st.taken = st.taken || o.Taken
	st.fresh += o.Tokens
	if o.End != "" {
		st.end = o.End
	}
}

func (st *stream) tell() {
	select {
	case st.ready <- struct{}{}:
	default:
	}
}

// A heard is what has come for a stream since the last time.
type heard struct {
	taken bool
	fresh int
	end   Result
}

// wait waits for something to come. It returns false if the client has left.
func (s *Server) wait(ctx context.Context, st *stream) (heard, bool) {
	select {
	case <-st.ready:
	case <-ctx.Done():
		s.abort(st)
		return heard{}, false
	}
	s.mu.Lock()
	h := heard{st.taken, st.fresh, st.end}
	st.fresh = 0
	s.mu.Unlock()
	return h, true
}

// Handler returns the service of a side: [Front] is where clients go, and of
// a unified engine all there is.
func (s *Server) Handler(side Side) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(side, w, r) })
}
