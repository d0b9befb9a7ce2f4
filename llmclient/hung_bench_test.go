//go:build unix

package llmclient_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/llmclient"
	"github.com/neverhang/neverhang/pacer"
)

// A deafConn takes everything and never says a word.
type deafConn struct {
	closed chan struct{}
	once   sync.Once
	wrote  func()
}

func (c *deafConn) Read([]byte) (int, error)         { <-c.closed; return 0, net.ErrClosed }
func (c *deafConn) Write(p []byte) (int, error)      { c.wrote(); return len(p), nil }
func (c *deafConn) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *deafConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *deafConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *deafConn) SetDeadline(time.Time) error      { return nil }
func (c *deafConn) SetReadDeadline(time.Time) error  { return nil }
func (c *deafConn) SetWriteDeadline(time.Time) error { return nil }

// hung lets 10,000 calls hang over net/http's own transport. It returns the
// bytes and the goroutines that each holds, and the CPU time in ns that it takes
// until all have returned when they are cancelled at once.
//
// Each call has a prompt of its own, which its caller holds as long as it waits.
func hung(b *testing.B, side func(b *testing.B, hc *http.Client) func(ctx context.Context, prompt string) error) []float64 {
	const calls = 10_000
	var wrote atomic.Int64
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		var once sync.Once
		return &deafConn{closed: make(chan struct{}), wrote: func() { once.Do(func() { wrote.Add(1) }) }}, nil
	}}
	call := side(b, &http.Client{Transport: tr})
	before, g := inUse(), runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			prompt := fmt.Sprintf("%08d%s", i, hungPrompt)
			if call(ctx, prompt) == nil {
				b.Error("an answer")
			}
			runtime.KeepAlive(prompt)
		})
	}
	for wrote.Load() < calls {
		time.Sleep(time.Millisecond)
	}
	memory := float64(inUse()-before) / calls
	goroutines := float64(runtime.NumGoroutine()-g) / calls
	start := cpu()
	cancel()
	wg.Wait()
	unwind := float64(cpu() - start)
	tr.CloseIdleConnections()
	for runtime.NumGoroutine() > g+calls/100 {
		time.Sleep(time.Millisecond) // the next side should find the house empty
	}
	return []float64{memory, goroutines, unwind}
}

var hungPrompt = strings.Repeat("x", 2000)

func plainHung(_ *testing.B, hc *http.Client) func(context.Context, string) error {
	return func(ctx context.Context, prompt string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://deaf.test/chat/completions",
			strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"`+prompt+`"}]}`))
		if err != nil {
			return err
		}
		resp, err := hc.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
}

func oursHung(b *testing.B, hc *http.Client) func(context.Context, string) error {
	c, err := llmclient.New(llmclient.Config{
		BaseURL: "http://deaf.test", Model: "m", HTTPClient: hc,
		Pacer: pacer.Config{StartInFlight: -1}, // all are to be at the server at once, which no pacer would do to it
	})
	if err != nil {
		b.Fatal(err)
	}
	return func(ctx context.Context, prompt string) error {
		_, err := c.Chat(ctx, &chat.Request{Messages: []chat.Message{chat.User(prompt)}})
		return err
	}
}

// inUse returns the memory in use, stacks included.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
