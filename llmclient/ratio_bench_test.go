//go:build unix

package llmclient_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/sse"
	"github.com/neverhang/neverhang/llmclient"
)

// BenchmarkRatio tells what neverhang costs beside plain net/http with
// encoding/json: the two take turns, and the median of what one costs by the
// other is reported. Costs are CPU time of the whole process, both talk to the
// same server in it, and 1 means that neverhang costs what net/http does.
//
//	go test -run '^$' -bench Ratio -benchtime 1x ./llmclient
func BenchmarkRatio(b *testing.B) {
	b.Run("10,000 hung calls", ratioOfHungCalls) // first: what others leave behind makes memory slower
	b.Run("call of 2 KB", func(b *testing.B) { ratioOfCalls(b, 1, 2000, 1, 5000) })
	b.Run("round of 200 KB with 2 new of 150 messages", func(b *testing.B) { ratioOfCalls(b, 150, 1333, 2, 500) })
	b.Run("streamed chunk", ratioOfChunks)
}

// turns is how many times each side has its turn.
const turns = 9

// median lets two sides take turns and returns the median of ours by theirs,
// for each of the costs that they return.
func median(b *testing.B, theirs, ours func() []float64) []float64 {
	var ratios [][]float64
	for i := range turns {
		t, o := []float64(nil), []float64(nil)
		if i%2 == 0 {
			t, o = theirs(), ours()
		} else {
			o, t = ours(), theirs()
		}
		for k := range t {
			if i == 0 {
				ratios = append(ratios, nil)
			}
			ratios[k] = append(ratios[k], o[k]/t[k])
		}
	}
	var medians []float64
	for _, r := range ratios {
		slices.Sort(r)
		medians = append(medians, r[len(r)/2])
	}
	b.ReportMetric(0, "ns/op") // it means nothing here
	return medians
}

// onCPU returns the CPU time of n calls of f, after one that does not count.
func onCPU(n int, f func()) []float64 {
	f()
	start := cpu()
	for range n {
		f()
	}
	return []float64{float64(cpu()-start) / float64(n)}
}

func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// ratioOfCalls lets both sides send a conversation of n messages of the same
// size, of which some are new in each call.
func ratioOfCalls(b *testing.B, n, size, fresh, calls int) {
	srv := answerServer(b)
	plain, ours := conversation(n, size)
	next := 0
	text := func(i int) string { // something new at the end of the conversation
		next++
		return fmt.Sprintf("%08d", next) + plain[i].Content[8:]
	}
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}
	defer hc.CloseIdleConnections()
	c, err := llmclient.New(llmclient.Config{BaseURL: srv.URL, APIKey: "key", Model: "m"})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		m := median(b, func() []float64 {
			return onCPU(calls, func() {
				for i := n - fresh; i < n; i++ {
					plain[i].Content = text(i)
				}
				plainCall(b, hc, srv.URL, &wireRequest{"m", plain})
			})
		}, func() []float64 {
			return onCPU(calls, func() {
				for i := n - fresh; i < n; i++ {
					ours[i] = chat.User(text(i))
				}
				if _, err := c.Chat(context.Background(), &chat.Request{Messages: ours}); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.ReportMetric(m[0], "of-net/http")
	}
}

// ratioOfChunks decodes a stream, and compares with reading lines and decoding
// the least struct that will do.
func ratioOfChunks(b *testing.B) {
	const piece = `data: {"id":"chatcmpl-B7kX2mQ9","object":"chat.completion.chunk","created":1741569952,` +
		`"model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_b7a1c2d3e4","choices":[{"index":0,` +
		`"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}` + "\n\n"
	stream := []byte(strings.Repeat(piece, 500))
	want := 500 * len(" word")
	theirs := func() {
		s, n := bufio.NewScanner(bytes.NewReader(stream)), 0
		for s.Scan() {
			data, ok := bytes.CutPrefix(s.Bytes(), []byte("data: "))
			if !ok {
				continue
			}
			var ch struct {
				Choices []struct {
					Delta struct {
						Content string `json:"content"`
					} `json:"delta"`
					FinishReason string `json:"finish_reason"`
				} `json:"choices"`
			}
			if err := json.Unmarshal(data, &ch); err != nil {
				b.Fatal(err)
			}
			n += len(ch.Choices[0].Delta.Content)
		}
		if n != want {
			b.Fatal(n)
		}
	}
	ours := func() {
		r, n := sse.NewReader(bytes.NewReader(stream), 1<<20), 0
		var ch chat.Chunk
		for {
			ev, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			if err := ch.UnmarshalJSON(ev.Data); err != nil {
				b.Fatal(err)
			}
			n += len(ch.Content)
		}
		if n != want {
			b.Fatal(n)
		}
	}
	for b.Loop() {
		m := median(b, func() []float64 { return onCPU(100, theirs) }, func() []float64 { return onCPU(100, ours) })
		b.ReportMetric(m[0], "of-encoding/json")
	}
}

// ratioOfHungCalls compares what calls hold while they hang, and what it takes
// to end them all at once.
func ratioOfHungCalls(b *testing.B) {
	for b.Loop() {
		m := median(b, func() []float64 { return hung(b, plainHung) }, func() []float64 { return hung(b, oursHung) })
		b.ReportMetric(m[0], "memory-of-net/http")
		b.ReportMetric(m[1], "goroutines-of-net/http")
		b.ReportMetric(m[2], "unwinding-of-net/http")
	}
}
