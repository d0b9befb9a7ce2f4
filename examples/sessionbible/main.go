package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/journal"
	"github.com/neverhang/neverhang/health"
)

// The exit codes.
const (
	exitDone        = 0   // all articles are saved
	exitNotDone     = 1   // some are not
	exitUsage       = 2   // the command line cannot be followed
	exitStuck       = 3   // -naive reproduced the deadlock
	exitInterrupted = 130 // by the user
)

func main() {
	ctx := interruptible(os.Stderr)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errInterrupted is the cause of a context that the user ended.
var errInterrupted = errors.New("interrupted")

// interruptible returns a context that the first interrupt ends; the second
// one ends the process.
func interruptible(stderr io.Writer) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		fmt.Fprintln(stderr, "sessionbible: interrupted, keeping drafts; once more to leave at once")
		cancel(errInterrupted)
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx
}

// run is the program, from its arguments to its exit code. The end of ctx is
// an interrupt.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	say := newPrinter(stderr)
	defer say.close()
	usageError := func(err error) int {
		say.line("sessionbible: %v", err)
		return exitUsage
	}

	o, err := parseOptions(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		return usageError(fmt.Errorf("%w (-h lists the flags)", err))
	}
	s, err := readSession(o.session)
	if err != nil {
		return usageError(err)
	}
	plan := planArticles(s, o.articles)
	if len(plan) == 0 {
		return usageError(fmt.Errorf("no message of %q is worth an article", s.Title))
	}
	if o.articles > len(plan) {
		say.line("%d of %d messages are worth an article: writing %d, not %d", len(plan), len(s.Messages), len(plan), o.articles)
	}
	if err := checkReport(o.report); err != nil {
		return usageError(err)
	}
	if isOutput(o.report, stdout) {
		o.report = "-"
	}

	earlier, err := earlierRun(o) // before it is moved away
	if err != nil {
		return usageError(err)
	}

	var server *offline
	if o.embedded() {
		if server, err = startOffline(o); err != nil {
			return usageError(err)
		}
		defer server.close()
	} else if err := greet(ctx, o, say); err != nil {
		if _, ok := errors.AsType[*usageErr](err); ok {
			return usageError(err)
		}
		return neverStarted(ctx, o, s, plan, err, stdout, say)
	}
	b := newBook(o.out)
	h, err := newHarness(o, s, plan, b, server, say)
	if err != nil {
		return usageError(err)
	}
	defer h.doctor.close()
	if err := openBook(o, s, plan, b, say); err != nil {
		return usageError(err)
	}
	defer b.close()
	if o.naive {
		return writeNaively(ctx, h, naivePatience)
	}
	j, err := journal.Open(journal.Config{Dir: filepath.Join(o.out, journalDir)})
	if err == nil {
		defer j.Close()
		err = h.keepJournal(j)
	}
	if err != nil {
		return usageError(fmt.Errorf("-out: %w", err))
	}
	if err := h.doctor.fingerprint(ctx, o, b, h.config, earlier); err != nil {
		say.line("sessionbible: the fingerprint: %v", err)
	}
	return h.run(ctx).finish(o, stdout, say)
}

// earlierRun returns the fingerprint of the run to compare with, nil if none is
// named.
func earlierRun(o *options) (*health.Fingerprint, error) {
	if o.compare == "" {
		return nil, nil
	}
	return readFingerprint(o.compare)
}

// openBook prepares the folder, for a new book or for the one that is there.
func openBook(o *options, s *session, plan []article, b *book, say *printer) error {
	if o.resume {
		m, err := b.reopen(s, len(plan))
		if err != nil {
			return fmt.Errorf("-resume: %w", err)
		}
		say.line("going on: %d of %d are done", b.articles(), len(plan))
		switch {
		case m.Incident != "" && o.incident == "":
			say.line("the book was begun with -incident %s; this run plays none", m.Incident)
		case o.incident != "":
			say.line("%s is played from its beginning, on a new engine", o.incident)
		}
		return nil
	}
	moved, err := b.open(s, len(plan), o.incident, time.Now())
	if err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	if moved != "" {
		say.line("the earlier book is now in %s", moved)
	}
	return nil
}

// neverStarted reports a run that ended before any agent began. The error is printed
// once; in the report each agent has it.
func neverStarted(ctx context.Context, o *options, s *session, plan []article, err error, stdout io.Writer, say *printer) int {
	r := newReport(o, s, len(plan), time.Now())
	r.Run.Error, r.Run.ExitCode = orNull(err.Error()), exitNotDone
	if ctx.Err() != nil {
		r.Run.ExitCode = exitInterrupted
	}
	for _, a := range plan {
		r.Agents = append(r.Agents, agentReport{
			Name: a.name(), Outcome: string(agentloop.Cancelled), Messages: a.messages(),
			Missing: []string{stepRead, stepWrite, stepSave}, Error: r.Run.Error,
		})
	}
	r.sum()
	say.line("sessionbible: %v", err)
	if err := r.deliver(o.report, stdout, say); err != nil {
		say.line("sessionbible: %v", err)
	}
	return r.Run.ExitCode
}
