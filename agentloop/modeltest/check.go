package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// Patience is how long a call may take to return after its context has ended, and how
// long goroutines of a model may take to end after it was closed.
const Patience = time.Second

// limit bounds the calls that end by themselves. A model may retry within it.
const limit = 30 * time.Second

// Check puts the model into all situations and returns the promises that it breaks,
// joined, or nil. It waits for some seconds, and half a minute for each call that
// does not return. It returns soon after the end of ctx. Nothing else should start
// goroutines meanwhile, since it counts them.
func Check(ctx context.Context, setup Setup) error {
	var errs []error
	for _, s := range Situations() {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("modeltest: %s: not tried: %w", s, context.Cause(ctx)))
			break
		}
		for _, err := range checkOne(ctx, setup, s) {
			errs = append(errs, fmt.Errorf("modeltest: %s: %w", s, err))
		}
	}
	return errors.Join(errs...)
}

func checkOne(ctx context.Context, setup Setup, s Situation) (errs []error) {
	before := settled()
	m, closes, err := setup(s)
	switch {
	case errors.Is(err, ErrSkip):
		return nil
	case err != nil:
		return []error{fmt.Errorf("setup: %w", err)}
	}
	c := &checker{ctx: ctx, m: m}
	switch s {
	case Answers:
		c.answers()
		c.shared()
	case Calls:
		c.calls()
	case Cut:
		c.cut()
	case Silent:
		c.silent()
	case Busy:
		c.busy()
	case Refused, TooLong:
		c.final(s)
	}
	c.close(closes)
	c.quiet(before)
	return c.errs
}

type checker struct {
	ctx  context.Context
	m    agentloop.Model
	errs []error
}

func (c *checker) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// request is a small conversation with a tool.
func request() *chat.Request {
	return &chat.Request{
		Model:    "model",
		Messages: []chat.Message{chat.System("Be brief."), chat.User("Do the tests pass?")},
		Tools:    []chat.Tool{{Name: "read", Description: "Reads a page.", Parameters: json.RawMessage(`{"type":"object","properties":{"page":{"type":"integer"}}}`)}},
		Caller:   "modeltest",
	}
}

// ask makes a call that must end by itself.
func (c *checker) ask(req *chat.Request) (*chat.Response, error) {
	ctx, stop := context.WithTimeout(c.ctx, limit)
	defer stop()
	resp, err := c.call(ctx, req)
	if ctx.Err() != nil && c.ctx.Err() == nil {
		c.fail("the call took longer than %v", limit)
	}
	return resp, err
}

// errLate is the error of a call that did not return in time.
var errLate = fmt.Errorf("the call has not returned %v after the end of its context", Patience)

// call makes a call, and returns even if the call does not.
func (c *checker) call(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	resp, err := c.chat(ctx, req)
	switch {
	case err == errLate:
		c.fail("%w", err)
		return nil, context.Cause(ctx)
	case resp == nil && err == nil:
		c.fail("neither an answer nor an error")
	}
	return resp, err
}

// chat makes a call, and returns errLate if that does not return in time.
func (c *checker) chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	type answer struct {
		resp *chat.Response
		err  error
	}
	back := make(chan answer, 1)
	go func() {
		a := answer{err: errors.New("the call has ended its goroutine")}
		defer func() {
			if v := recover(); v != nil {
				a = answer{err: fmt.Errorf("the call panics: %v", v)}
			}
			back <- a
		}()
		a.resp, a.err = c.m.Chat(ctx, req)
	}()
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(Patience, func() { close(late) }) })
	defer stop()
	select {
	case a := <-back:
		return a.resp, a.err
	case <-late:
		return nil, errLate
	}
}

func (c *checker) answers() {
	req := request()
	var life atomic.Int32
	req.OnOutput = func() { life.Add(1) }
	resp, err := c.ask(req)
	switch {
	case err != nil:
		c.fail("want an answer, got the error %w", err)
	case resp == nil:
	case strings.TrimSpace(resp.Message.Content) != Text:
		c.fail("the text is %q, want %q", resp.Message.Content, Text)
	case len(resp.Message.ToolCalls) > 0:
		c.fail("there are %d calls, want none", len(resp.Message.ToolCalls))
	}
	if err == nil && life.Load() == 0 {
		c.fail("no sign of life: Request.OnOutput was not called")
	}
}

// shared makes several calls at the same time with one request, which none may
// change.
func (c *checker) shared() {
	req := request()
	want := request()
	ctx, stop := context.WithTimeout(c.ctx, limit)
	defer stop()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = c.chat(ctx, req) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		c.fail("%d calls at the same time: %w", len(errs), err)
		return // a late call may still use the request
	}
	if !reflect.DeepEqual(req, want) {
		c.fail("the request was written to")
	}
}

func (c *checker) calls() {
	resp, err := c.ask(request())
	if err != nil || resp == nil {
		c.fail("want calls, got the error %w", err)
		return
	}
	want, got := ToolCalls(), resp.Message.ToolCalls
	if len(got) != len(want) {
		c.fail("there are %d calls, want %d", len(got), len(want))
		return
	}
	for i := range want {
		if got[i].Name != want[i].Name || !sameJSON(got[i].Arguments, want[i].Arguments) {
			c.fail("call %d is %s %s, want %s %s", i, got[i].Name, got[i].Arguments, want[i].Name, want[i].Arguments)
		}
	}
	if resp.FinishReason.Limited() || resp.FinishReason.Failed() {
		c.fail("the finish reason is %q, but the calls are whole", resp.FinishReason)
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

func (c *checker) cut() {
	resp, err := c.ask(request())
	if err == nil {
		if resp != nil && !resp.FinishReason.Limited() {
			c.fail("calls that a token limit cut look whole: the finish reason is %q", resp.FinishReason)
		}
		return
	}
	t, ok := errors.AsType[interface {
		error
		Truncated() *chat.Response
	}](err)
	if !ok || t.Truncated() == nil {
		c.fail("an error that does not say that a token limit cut the answer, by Truncated: %w", err)
	}
}

func (c *checker) silent() {
	ctx, cancel := context.WithCancel(c.ctx)
	time.AfterFunc(200*time.Millisecond, cancel)
	if resp, err := c.call(ctx, request()); err == nil {
		c.fail("an answer, %v", resp)
	} else if !errors.Is(err, context.Canceled) {
		c.fail("the error after a cancel does not match context.Canceled: %w", err)
	}
	ctx, cancel = context.WithTimeout(c.ctx, 200*time.Millisecond)
	defer cancel()
	if resp, err := c.call(ctx, request()); err == nil {
		c.fail("an answer, %v", resp)
	} else if !errors.Is(err, context.DeadlineExceeded) {
		c.fail("the error after the deadline does not match context.DeadlineExceeded: %w", err)
	}
}

func retryable(err error) bool {
	r, ok := errors.AsType[interface {
		error
		Retryable() bool
	}](err)
	return ok && r.Retryable()
}

func (c *checker) busy() {
	_, err := c.ask(request())
	switch {
	case err == nil:
		c.fail("want an error")
	case !retryable(err):
		c.fail("a fault that passes is not Retryable: %w", err)
	}
}

func (c *checker) final(s Situation) {
	_, err := c.ask(request())
	switch {
	case err == nil:
		c.fail("want an error")
		return
	case retryable(err):
		c.fail("a fault that does not pass is Retryable: %w", err)
	}
	if status, ok := errors.AsType[interface {
		error
		StatusCode() int
	}](err); ok && s == Refused && status.StatusCode() != 0 && status.StatusCode()/100 != 4 {
		c.fail("StatusCode is %d: %w", status.StatusCode(), err)
	}
	if over, ok := errors.AsType[interface {
		error
		ContextOverflow() bool
	}](err); ok && over.ContextOverflow() != (s == TooLong) {
		c.fail("ContextOverflow is %v: %w", over.ContextOverflow(), err)
	}
}

// close closes the model, and returns even if that hangs.
func (c *checker) close(closes func()) {
	if closes == nil {
		return
	}
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		closes()
	}()
	ctx, stop := context.WithTimeout(c.ctx, limit)
	defer stop()
	late := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(Patience, func() { close(late) }) })()
	select {
	case v := <-done:
		if v != nil {
			c.fail("closing panics: %v", v)
		}
	case <-late:
		c.fail("closing took longer than it may (%v)", limit)
	}
}

// settled returns how many goroutines run, once earlier ones have ended.
func settled() int {
	n, same := runtime.NumGoroutine(), 0
	for end := time.Now().Add(Patience); same < 5 && time.Now().Before(end); same++ {
		time.Sleep(time.Millisecond)
		if now := runtime.NumGoroutine(); now != n {
			n, same = now, 0
		}
	}
	return n
}

// quiet waits until as few goroutines run as before.
func (c *checker) quiet(before int) {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return
		}
	}
	if n := runtime.NumGoroutine(); n > before {
		c.fail("%d goroutines run that did not before", n-before)
	}
}
