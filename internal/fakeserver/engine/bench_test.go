package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/internal/fakeserver/engine"
)

// streamed makes one streamed call and returns its tokens and the reason it
// ended for.
func streamed(ctx context.Context, client *http.Client, url, body string) (tokens int, reason string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		return 0, resp.Status + " " + string(b), nil
	}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Bytes()
		switch {
		case bytes.Contains(line, []byte(`"delta":{"content":"`)):
			tokens++
		case bytes.Contains(line, []byte(`"finish_reason":"`)):
			_, rest, _ := bytes.Cut(line, []byte(`"finish_reason":"`))
			word, _, _ := bytes.Cut(rest, []byte(`"`))
			reason = string(word)
		}
	}
	return tokens, reason, lines.Err()
}

// BenchmarkServer prints how many streamed requests of 100 tokens go through
// net/http in memory in a second of real time.
func BenchmarkServer(b *testing.B) {
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("%d clients", clients), func(b *testing.B) {
			tokens := 0
			virtual := time.Duration(0)
			b.ReportAllocs()
			b.ResetTimer() // outside the bubble, where time is real
			synctest.Test(&testing.T{}, func(t *testing.T) {
				srv, err := engine.Start(engine.ServerConfig{Engine: engine.Config{Slots: clients, Queue: -1}})
				require.NoError(b, err)
				defer srv.Close()
				tr := srv.Transport()
				tr.MaxIdleConnsPerHost = clients
				defer tr.CloseIdleConnections()
				client := &http.Client{Transport: tr}
				jobs := make(chan int)
				var wg sync.WaitGroup
				var mu sync.Mutex
				start := time.Now()
				for range clients {
					wg.Go(func() {
						for i := range jobs {
							n, _, err := streamed(context.Background(), client, srv.BaseURL(),
								fmt.Sprintf(`{"model":"m","stream":true,"seed":%d,"max_tokens":100,"metadata":{"output_tokens":"100"},"messages":[{"role":"user","content":"hello there"}]}`, i))
							if err != nil || n != 100 {
								b.Errorf("got %d tokens, %v", n, err)
							}
							mu.Lock()
							tokens += n
							mu.Unlock()
						}
					})
				}
				for i := range b.N {
					jobs <- i
				}
				close(jobs)
				wg.Wait()
				virtual = time.Since(start)
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
			b.ReportMetric(virtual.Seconds()/b.Elapsed().Seconds(), "virtual-s/s")
		})
	}
}

// BenchmarkCore prints how many tokens the core makes in a second of real
// time, with clients and a gate around it.
func BenchmarkCore(b *testing.B) {
	tokens := 0
	for b.Loop() {
		s, err := engine.Play(engine.Config{}, engine.Load{Calls: 200, Timeout: -1, Output: 100}, engine.Fixed(16))
		require.NoError(b, err)
		tokens += s.Tokens
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkFixedLimits prints for each setting how many answers are useful
// with a limit from 1 to 32, as shares of the best one: over the time of the
// setting, and of 64 agents with 20 calls each. Run it with -benchtime=1x -v.
func BenchmarkFixedLimits(b *testing.B) {
	limits := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 28, 32, 0}
	for _, name := range engine.Names() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, form := range []struct {
					name string
					load engine.Load
				}{{"calls without end", engine.Load{Calls: -1, Until: engine.SettingTime}}, {"20 calls an agent", engine.Load{Until: engine.SettingTime}}} {
					counts := make([]int, len(limits))
					at := 0
					for i, l := range limits {
						cfg, err := engine.Setting(name, 1)
						require.NoError(b, err)
						s, err := engine.Play(cfg, form.load, engine.Fixed(l))
						require.NoError(b, err)
						counts[i] = s.Useful
						if counts[i] > counts[at] {
							at = i
						}
					}
					var line strings.Builder
					for i, l := range limits {
						fmt.Fprintf(&line, " %d:%.2f", l, float64(counts[i])/float64(max(counts[at], 1)))
					}
					b.Logf("%s, best %d of %d, 0 is no limit:%s", form.name, limits[at], counts[at], line.String())
				}
			}
		})
	}
}
