//go:build unix

package llmclient

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// DumpOnSignal prints a [Dump] of the clients to w whenever the process gets
// one of the signals; without any, SIGUSR1. With SIGQUIT among them the
// runtime's own dump, which ends the process, no longer comes. stop ends it
// and waits for a dump under way.
func DumpOnSignal(w io.Writer, signals []os.Signal, clients ...*Client) (stop func()) {
	if len(signals) == 0 {
		signals = []os.Signal{syscall.SIGUSR1}
	}
	got := make(chan os.Signal, 1)
	quit, done := make(chan struct{}), make(chan struct{})
	signal.Notify(got, signals...)
	go func() {
		defer close(done)
		for {
			select {
			case <-got:
				_ = Dump(w, clients...)
			case <-quit:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		signal.Stop(got)
		close(quit)
		<-done
	})
}
