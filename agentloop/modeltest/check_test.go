package modeltest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/modeltest"
	"github.com/neverhang/neverhang/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fault struct {
	text                string
	retryable, overflow bool
	status              int
	cut                 *chat.Response
}

func (f *fault) Error() string             { return f.text }
func (f *fault) Retryable() bool           { return f.retryable }
func (f *fault) ContextOverflow() bool     { return f.overflow }
func (f *fault) StatusCode() int           { return f.status }
func (f *fault) Truncated() *chat.Response { return f.cut }

// good keeps everything.
func good(s modeltest.Situation) agentloop.ModelFunc {
	return func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
		m := chat.Assistant(modeltest.Text)
		switch s {
		case modeltest.Answers:
			if req.OnOutput != nil {
				req.OnOutput()
			}
			return &chat.Response{Message: m, FinishReason: chat.FinishStop}, nil
		case modeltest.Calls:
			m = chat.Message{Role: chat.RoleAssistant, ToolCalls: modeltest.ToolCalls()}
			return &chat.Response{Message: m, FinishReason: chat.FinishToolCalls}, nil
		case modeltest.Cut:
			m = chat.Message{Role: chat.RoleAssistant, ToolCalls: modeltest.ToolCalls()[:1]}
			return &chat.Response{Message: m, FinishReason: chat.FinishLength}, nil
		case modeltest.Silent:
			<-ctx.Done()
			return nil, fmt.Errorf("model: %w", ctx.Err())
		case modeltest.Busy:
			return nil, &fault{text: "busy", retryable: true, status: 503}
		case modeltest.Refused:
			return nil, &fault{text: "who are you", status: 401}
		}
		return nil, &fault{text: "too long", overflow: true, status: 400}
	}
}

func setup(of func(modeltest.Situation) agentloop.ModelFunc) modeltest.Setup {
	return func(s modeltest.Situation) (agentloop.Model, func(), error) { return of(s), nil, nil }
}

func TestAGoodModelPasses(t *testing.T) {
	assert.NoError(t, modeltest.Check(t.Context(), setup(good)))
	assert.NoError(t, modeltest.Check(t.Context(), func(modeltest.Situation) (agentloop.Model, func(), error) {
		return nil, nil, modeltest.ErrSkip
	}))
	assert.ErrorContains(t, modeltest.Check(t.Context(), func(modeltest.Situation) (agentloop.Model, func(), error) {
		return nil, nil, errors.New("no server")
	}), "modeltest: answers: setup: no server")
}

// Whatever a model does not keep is found, and nothing else is said.
func TestEachFlawIsFound(t *testing.T) {
	release := make(chan struct{})
	for name, c := range map[string]struct {
		in   modeltest.Situation
		flaw agentloop.ModelFunc
		want string
	}{
		"neither": {modeltest.Answers, func(context.Context, *chat.Request) (*chat.Response, error) { return nil, nil }, "neither an answer nor an error"},
		"another text": {modeltest.Answers, func(_ context.Context, req *chat.Request) (*chat.Response, error) {
			if req.OnOutput != nil {
				req.OnOutput()
			}
			return &chat.Response{Message: chat.Assistant("The tests")}, nil
		}, `the text is "The tests"`},
		"no life": {modeltest.Answers, func(context.Context, *chat.Request) (*chat.Response, error) {
			return &chat.Response{Message: chat.Assistant(modeltest.Text)}, nil
		}, "no sign of life"},
		"one call only": {modeltest.Calls, func(context.Context, *chat.Request) (*chat.Response, error) {
			return &chat.Response{Message: chat.Message{ToolCalls: modeltest.ToolCalls()[:1]}}, nil
		}, "there are 1 calls, want 2"},
		"calls mixed up": {modeltest.Calls, func(context.Context, *chat.Request) (*chat.Response, error) {
			calls := modeltest.ToolCalls()
			return &chat.Response{Message: chat.Message{ToolCalls: []chat.ToolCall{calls[1], calls[0]}}}, nil
		}, `call 0 is read {"page":2}, want read {"page":1}`},
		"cut, and not told": {modeltest.Cut, good(modeltest.Calls), "calls that a token limit cut look whole"},
		"cut, another error": {modeltest.Cut, func(context.Context, *chat.Request) (*chat.Response, error) {
			return nil, errors.New("bad JSON")
		}, "does not say that a token limit cut the answer"},
		"another error than the context's": {modeltest.Silent, func(ctx context.Context, _ *chat.Request) (*chat.Response, error) {
			<-ctx.Done()
			return nil, errors.New("connection closed")
		}, "does not match context.Canceled"},
		"busy for good": {modeltest.Busy, good(modeltest.Refused), "a fault that passes is not Retryable"},
		"refused, perhaps": {modeltest.Refused, func(context.Context, *chat.Request) (*chat.Response, error) {
			return nil, &fault{text: "x", retryable: true}
		}, "a fault that does not pass is Retryable"},
		"too long, not told": {modeltest.TooLong, good(modeltest.Refused), "ContextOverflow is false"},
		"something left running": {modeltest.Calls, func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			go func() { <-release }()
			return good(modeltest.Calls)(ctx, req)
		}, "goroutines run that did not before"},
	} {
		t.Run(name, func(t *testing.T) {
			err := modeltest.Check(t.Context(), func(s modeltest.Situation) (agentloop.Model, func(), error) {
				if s == c.in {
					return c.flaw, nil, nil
				}
				return nil, nil, modeltest.ErrSkip
			})
			assert.ErrorContains(t, err, "modeltest: "+string(c.in)+": ")
			assert.ErrorContains(t, err, c.want)
		})
	}
	close(release)
}

// A model that does not listen to its context does not hold the check up.
func TestADeafModelIsFound(t *testing.T) {
	release := make(chan struct{})
	start := time.Now()
	err := modeltest.Check(t.Context(), func(s modeltest.Situation) (agentloop.Model, func(), error) {
		if s != modeltest.Silent {
			return nil, nil, modeltest.ErrSkip
		}
		return agentloop.ModelFunc(func(context.Context, *chat.Request) (*chat.Response, error) { <-release; return nil, nil }),
			func() { close(release) }, nil
	})
	assert.ErrorContains(t, err, "the call has not returned 1s after the end of its context")
	assert.Less(t, time.Since(start), 10*time.Second)
}

// Nor does one that locks itself up when it is asked by several at a time, one
// that panics, or one that cannot be closed.
func TestAModelThatHangsOrPanicsIsFound(t *testing.T) {
	var busy atomic.Int32
	release := make(chan struct{})
	defer close(release)
	answers := good(modeltest.Answers)
	for name, c := range map[string]struct {
		flaw   agentloop.ModelFunc
		closes func()
		want   string
	}{
		"locked": {func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
			if busy.Add(1) > 1 {
				<-release
			}
			time.Sleep(50 * time.Millisecond) // long enough for the others to come, on a busy machine too
			busy.Add(-1)
			return answers(ctx, req)
		}, nil, "8 calls at the same time: the call has not returned"},
		"panics":          {func(context.Context, *chat.Request) (*chat.Response, error) { panic("no") }, nil, "the call panics: no"},
		"exits":           {func(context.Context, *chat.Request) (*chat.Response, error) { runtime.Goexit(); return nil, nil }, nil, "the call has ended its goroutine"},
		"cannot close":    {answers, func() { <-release }, "closing took longer than it may"},
		"panics at close": {answers, func() { panic("shut") }, "closing panics: shut"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			start := time.Now()
			err := modeltest.Check(ctx, func(s modeltest.Situation) (agentloop.Model, func(), error) {
				if s != modeltest.Answers {
					return nil, nil, modeltest.ErrSkip
				}
				return c.flaw, c.closes, nil
			})
			assert.ErrorContains(t, err, c.want)
			assert.Less(t, time.Since(start), 10*time.Second)
		})
	}
}
