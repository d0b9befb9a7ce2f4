package fakeserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fs "github.com/neverhang/neverhang/internal/fakeserver"
)

func healthy(net ...fs.NetFault) fs.Config {
	return fs.Config{Script: fs.Always(fs.Answer("ok")), Net: net}
}

func TestRefusedForAWhile(t *testing.T) {
	inMemory(t, healthy(fs.NetFault{Kind: fs.Refused, Until: time.Minute}), func(t *testing.T, srv *fs.Server) {
		time.Sleep(time.Minute - 1)
		s := ask(t, transport(t, srv), srv, streamBody, time.Hour)
		assert.ErrorIs(t, s.err, syscall.ECONNREFUSED)
		assert.Zero(t, s.took)

		time.Sleep(time.Nanosecond)
		s = ask(t, transport(t, srv), srv, streamBody, time.Hour)
		assert.NoError(t, s.err)
		assert.Equal(t, "ok", texts(t, s.body))
		assert.Equal(t, 2, srv.Requests()[0].Conn, "the refused dial counts")
	})
}

// A kernel has accepted before we can refuse: there the client sees a reset.
func TestRefusedOnLoopback(t *testing.T) {
	onLoopback(t, healthy(fs.NetFault{Kind: fs.Refused, Last: 1}), func(t *testing.T, srv *fs.Server) {
		s := ask(t, transport(t, srv), srv, streamBody, 5*time.Second)
		assert.Error(t, s.err)
		assert.False(t, s.silent)
		s = ask(t, transport(t, srv), srv, streamBody, 5*time.Second)
		assert.Equal(t, "ok", texts(t, s.body))
	})
}

func TestHangInDial(t *testing.T) {
	inMemory(t, healthy(fs.NetFault{Kind: fs.HangDial, First: 2, Last: 2}), func(t *testing.T, srv *fs.Server) {
		s := ask(t, transport(t, srv), srv, streamBody, time.Hour)
		assert.Equal(t, "ok", texts(t, s.body))

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		_, err := srv.DialContext(ctx, "tcp", "ignored:80")
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 10*time.Second, time.Since(start))
		oe, ok := errors.AsType[*net.OpError](err)
		require.True(t, ok)
		assert.Equal(t, "dial", oe.Op)

		s = ask(t, transport(t, srv), srv, streamBody, time.Hour)
		assert.Equal(t, "ok", texts(t, s.body))
	})
}

// Nobody reads: even the smallest request cannot be sent in memory.
func TestNeverRead(t *testing.T) {
	inMemory(t, healthy(fs.NetFault{Kind: fs.NeverRead}), func(t *testing.T, srv *fs.Server) {
		nc, err := srv.DialContext(t.Context(), "tcp", "")
		require.NoError(t, err)
		require.NoError(t, nc.SetWriteDeadline(time.Now().Add(30*time.Second)))
		start := time.Now()
		n, err := nc.Write([]byte("POST"))
		assert.Zero(t, n)
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, 30*time.Second, time.Since(start))
		assert.Equal(t, 1, srv.Stats().Open)
		require.NoError(t, nc.Close())
		assert.Equal(t, 0, srv.Stats().Open)
		assert.Empty(t, srv.Requests())
	})
	onLoopback(t, healthy(fs.NetFault{Kind: fs.NeverRead}), func(t *testing.T, srv *fs.Server) {
		s := ask(t, transport(t, srv), srv, streamBody, 100*time.Millisecond)
		assert.True(t, s.silent)
		assert.Empty(t, srv.Requests())
	})
}

// A server that closes its idle connections: the next request on one fails or
// is sent again, by the client's choice; a new connection works.
func TestIdleClose(t *testing.T) {
	inMemory(t, healthy(fs.NetFault{Kind: fs.IdleClose, After: 5 * time.Second}), func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		for range 3 {
			assert.Equal(t, "ok", texts(t, ask(t, tr, srv, streamBody, time.Hour).body))
			time.Sleep(5*time.Second - 1)
		}
		assert.Equal(t, 1, srv.Stats().Dialled, "not idle for long enough")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, 0, srv.Stats().Open)
		assert.Equal(t, "ok", texts(t, ask(t, tr, srv, streamBody, time.Hour).body))
		assert.Equal(t, 2, srv.Stats().Dialled)
	})
}

// A connection that is lost without a word takes what is written and says
// nothing. New ones work.
func TestBlackHole(t *testing.T) {
	onBoth(t, healthy(fs.NetFault{Kind: fs.BlackHole, Last: 1}), func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		require.Equal(t, "ok", texts(t, ask(t, tr, srv, streamBody, time.Second).body))
		require.NoError(t, srv.Await(t.Context(), func(s fs.Stats) bool { return s.Ended == 1 }))
		time.Sleep(20 * time.Millisecond) // until the connection is idle
		s := ask(t, tr, srv, streamBody, 200*time.Millisecond)
		assert.True(t, s.silent)
		assert.Equal(t, 1, srv.Stats().Dialled)
		s = ask(t, tr, srv, streamBody, time.Second)
		assert.Equal(t, "ok", texts(t, s.body))
		assert.Equal(t, 2, srv.Stats().Dialled)
		assert.Len(t, srv.Requests(), 2)
	})
}

func TestNetChangesWhileItRuns(t *testing.T) {
	inMemory(t, healthy(), func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		require.Equal(t, "ok", texts(t, ask(t, tr, srv, streamBody, time.Hour).body))
		srv.SetNet(fs.NetFault{Kind: fs.Refused})
		require.Equal(t, "ok", texts(t, ask(t, tr, srv, streamBody, time.Hour).body), "the open one works on")
		srv.LoseConns()
		assert.True(t, ask(t, tr, srv, streamBody, time.Minute).silent)
		assert.ErrorIs(t, ask(t, tr, srv, streamBody, time.Minute).err, syscall.ECONNREFUSED)
		srv.SetNet()
		require.Equal(t, "ok", texts(t, ask(t, tr, srv, streamBody, time.Hour).body))
		srv.CloseConns()
		synctest.Wait()
		assert.Equal(t, 0, srv.Stats().Open)
	})
}

// The network in memory behaves as a client of TCP expects.
func TestConnInMemory(t *testing.T) {
	dial := func(t *testing.T, srv *fs.Server) net.Conn {
		nc, err := srv.DialContext(t.Context(), "tcp", "")
		require.NoError(t, err)
		return nc
	}
	t.Run("a read ends at its deadline, and the next one may wait again", func(t *testing.T) {
		inMemory(t, healthy(), func(t *testing.T, srv *fs.Server) {
			nc := dial(t, srv)
			defer nc.Close()
			for range 2 {
				start := time.Now()
				require.NoError(t, nc.SetReadDeadline(start.Add(time.Second)))
				_, err := nc.Read(make([]byte, 1))
				assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
				ne, ok := errors.AsType[net.Error](err)
				assert.True(t, ok && ne.Timeout())
				assert.Equal(t, time.Second, time.Since(start))
			}
		})
	})
	t.Run("a deadline set from elsewhere ends a read under way", func(t *testing.T) {
		inMemory(t, healthy(), func(t *testing.T, srv *fs.Server) {
			nc := dial(t, srv)
			defer nc.Close()
			start := time.Now()
			require.NoError(t, nc.SetDeadline(start.Add(time.Hour)))
			time.AfterFunc(time.Minute, func() { _ = nc.SetReadDeadline(time.Unix(1, 0)) })
			_, err := nc.Read(make([]byte, 1))
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.Equal(t, time.Minute, time.Since(start))
		})
	})
	t.Run("closing ends a read under way", func(t *testing.T) {
		inMemory(t, healthy(), func(t *testing.T, srv *fs.Server) {
			nc := dial(t, srv)
			time.AfterFunc(time.Minute, func() { _ = nc.Close() })
			_, err := nc.Read(make([]byte, 1))
			assert.ErrorIs(t, err, net.ErrClosed)
			_, err = nc.Write([]byte("x"))
			assert.ErrorIs(t, err, net.ErrClosed)
		})
	})
	t.Run("what was sent before a close still arrives", func(t *testing.T) {
		cfg := fs.Config{Script: fs.Always(fs.Reply(fs.Header("Connection", "close"), fs.Answer("late reader")))}
		inMemory(t, cfg, func(t *testing.T, srv *fs.Server) {
			nc := dial(t, srv)
			defer nc.Close()
			_, err := nc.Write([]byte("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"))
			require.NoError(t, err)
			time.Sleep(time.Hour) // the server has long closed
			assert.Equal(t, 0, srv.Stats().Open)
			all, err := io.ReadAll(nc)
			assert.NoError(t, err)
			assert.Contains(t, string(all), "late reader")
			_, err = nc.Write([]byte("x"))
			assert.ErrorIs(t, err, syscall.EPIPE)
		})
	})
	t.Run("what was sent before a reset is lost", func(t *testing.T) {
		cfg := fs.Config{Script: fs.Always(fs.Reply(fs.Text("lost"), fs.Reset()))}
		inMemory(t, cfg, func(t *testing.T, srv *fs.Server) {
			nc := dial(t, srv)
			defer nc.Close()
			_, err := nc.Write([]byte("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{\"stream\":true}"))
			require.NoError(t, err)
			synctest.Wait()
			all, err := io.ReadAll(nc)
			assert.ErrorIs(t, err, syscall.ECONNRESET)
			assert.Empty(t, all)
		})
	})
	t.Run("a writer waits when the buffer is full", func(t *testing.T) {
		cfg := healthy()
		cfg.Buffer = 1000
		cfg.Script = fs.Always(fs.Reply(fs.Raw(strings.Repeat("x", 10_000)), fs.Pause(time.Second)))
		inMemory(t, cfg, func(t *testing.T, srv *fs.Server) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
			require.NoError(t, err)
			tr := transport(t, srv)
			tr.ReadBufferSize = 1
			resp, err := tr.RoundTrip(req)
			require.NoError(t, err)
			time.Sleep(10 * time.Minute) // a consumer that does something else
			assert.True(t, srv.Requests()[0].Ended.IsZero(), "it still has most of it")
			all, err := io.ReadAll(resp.Body)
			assert.NoError(t, err)
			assert.Len(t, all, 10_000)
			assert.Equal(t, 10*time.Minute+time.Second, srv.Requests()[0].Ended.Sub(srv.Requests()[0].Arrived))
		})
	})
}

func TestNetFaultString(t *testing.T) {
	tests := map[string]fs.NetFault{
		"refused":                          {Kind: fs.Refused},
		"refused until 2s":                 {Kind: fs.Refused, Until: 2 * time.Second},
		"hang-dial #2":                     {Kind: fs.HangDial, First: 2, Last: 2},
		"never-read #1-3 from 1s until 2s": {Kind: fs.NeverRead, Last: 3, From: time.Second, Until: 2 * time.Second},
		"black-hole #4- after 1s idle":     {Kind: fs.BlackHole, First: 4, After: time.Second},
	}
	for want, f := range tests {
		assert.Equal(t, want, f.String())
	}
}

// Close returns while clients are in every state there is, and leaves nothing
// of the server behind.
func TestCloseAtAnyTime(t *testing.T) {
	stuck := map[string]fs.Config{
		"hanging":        {Script: fs.Always(fs.Hang())},
		"deaf":           {Script: fs.Always(fs.Deaf(time.Hour))},
		"paused":         {Script: fs.Always(fs.Reply(fs.Text("x"), fs.Pause(time.Hour)))},
		"pinging":        {Script: fs.Always(fs.Pings(time.Millisecond))},
		"writing":        {Script: fs.Always(fs.Endless(time.Millisecond))},
		"waiting":        {Script: fs.Always(fs.Hang()), Slots: 1},
		"never reading":  {Net: []fs.NetFault{{Kind: fs.NeverRead}}},
		"never dialling": {Net: []fs.NetFault{{Kind: fs.HangDial}}},
	}
	for name, cfg := range stuck {
		t.Run(name, func(t *testing.T) {
			onBoth(t, cfg, func(t *testing.T, srv *fs.Server) {
				tr := transport(t, srv)
				for range 3 {
					ctx, cancel := context.WithCancel(context.Background())
					t.Cleanup(cancel)
					go func() {
						req, _ := http.NewRequestWithContext(ctx, http.MethodPost, srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
						resp, err := tr.RoundTrip(req)
						if err == nil {
							_, _ = io.Copy(io.Discard, resp.Body)
							_ = resp.Body.Close()
						}
					}()
				}
				require.NoError(t, srv.Await(t.Context(), func(s fs.Stats) bool { return s.Dialled == 3 }))
				time.Sleep(10 * time.Millisecond)
				go srv.Close()
				srv.Close()
				assert.Zero(t, srv.Stats().Open)
				_, err := srv.DialContext(t.Context(), "tcp", "")
				assert.Error(t, err)
			})
		})
	}
}

// A client that takes nothing does not keep the server from closing.
func TestCloseWhileTheClientDoesNotRead(t *testing.T) {
	onBoth(t, fs.Config{Script: fs.Always(fs.Raw(strings.Repeat("x", 32<<20)))}, func(t *testing.T, srv *fs.Server) {
		nc, err := srv.DialContext(t.Context(), "tcp", "")
		require.NoError(t, err)
		defer nc.Close()
		_, err = nc.Write([]byte("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"))
		require.NoError(t, err)
		require.NoError(t, srv.Await(t.Context(), func(s fs.Stats) bool { return s.Requests == 1 }))
		time.Sleep(10 * time.Millisecond)
		assert.Zero(t, srv.Stats().Ended)
		srv.Close()
		assert.Equal(t, 1, srv.Stats().Ended)
	})
}
