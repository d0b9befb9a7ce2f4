//go:build unix

package llmclient_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestDump(t *testing.T) {
	reply := func(r *fake.Request) fake.Step {
		if r.Ordinal == 1 {
			return fake.Reply(fake.Text("one"), fake.Hang())
		}
		return fake.Hang()
	}
	inWorld(t, fake.Config{Script: reply}, unpaced, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 45 {
			wg.Go(func() { _, _ = w.client.Chat(ctx, hello()) })
			synctest.Wait()
		}
		time.Sleep(90 * time.Second)
		var b strings.Builder
		require.NoError(t, llmclient.Dump(&b, w.client))
		lines := strings.Split(b.String(), "\n")
		assert.Equal(t, "neverhang: 45 calls in flight to http://model.test/v1; breaker closed, pacer 45 in flight, 0 waiting", lines[0])
		assert.Equal(t, "    44 first output since 00:00:00, the oldest for 1m30s", lines[1])
		assert.Equal(t, "     1 output       since 00:00:00, the oldest for 1m30s", lines[2])
		assert.Contains(t, b.String(), `of "tester": first output for 1m30s, attempt 1, suspect (clock FirstOutput), in all 1m30s`)
		assert.Contains(t, b.String(), `some 0 tokens so far, the last 1m30s ago, suspect (clock Gap)`)
		cancel()
		wg.Wait()
	})
}

func TestDumpOnSignal(t *testing.T) {
	c, err := llmclient.New(llmclient.Config{BaseURL: "http://localhost:1/v1"})
	require.NoError(t, err)
	r, w := io.Pipe()
	stop := llmclient.DumpOnSignal(w, nil, c)
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR1))
	line := make([]byte, 200)
	n, err := r.Read(line)
	require.NoError(t, err)
	assert.Contains(t, string(line[:n]), "0 calls in flight to http://localhost:1/v1")
	require.NoError(t, r.Close())
	stop()
	require.NoError(t, c.Close())
}
