package agentloop

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/neverhang/neverhang/chat"
)

// The causes for which an agent ends as [Stalled]. Result.Err matches one of them.
// Their texts do not begin with the name of the package, since they are only used
// inside of texts that do, such as that of Result.Err or a line of the log.
var (
	// ErrEmpty: the model answered with neither text nor a tool call.
	ErrEmpty = errors.New("empty answer")
	// ErrReasoningOnly: the answer was reasoning without text or a call.
	ErrReasoningOnly = errors.New("answer with reasoning only")
	// ErrNoCall: the finish reason said tool_calls, but none came, or a call was
	// written as text.
	ErrNoCall = errors.New("tool call announced but absent")
	// ErrTruncated: the answer was cut by the token limit. If nothing but reasoning
	// fitted, the error matches ErrReasoningOnly or ErrEmpty as well.
	ErrTruncated = errors.New("answer cut by the token limit")
	// ErrFiltered: the answer was withheld or cut by a content filter.
	ErrFiltered = errors.New("answer cut by a content filter")
	// ErrStoppedEarly: the model stopped while steps were missing.
	ErrStoppedEarly = errors.New("stopped with steps missing")
	// ErrOutOfOrder: the model kept calling tools whose step was not due.
	ErrOutOfOrder = errors.New("tool called before its step")
	// ErrUnknownTool: the model kept calling tools that do not exist.
	ErrUnknownTool = errors.New("unknown tool called")
	// ErrBadArguments: the model kept sending arguments that are no JSON object.
	ErrBadArguments = errors.New("arguments are no JSON object")
	// ErrRepeating: the calls brought nothing new any more. It is a [RepeatError].
	ErrRepeating = errors.New("calls bring nothing new")
)

// Other causes.
var (
	// ErrRounds: the rounds are used up. It is a [BudgetError].
	ErrRounds = errors.New("rounds used up")
	// ErrNeverStarted: the group ended before the agent's turn came.
	ErrNeverStarted = errors.New("never started")
	// ErrAbandoned: user code ignored its context and was left behind.
	ErrAbandoned = errors.New("ignored its context")
	// ErrJournal: the journal could not be written, so the agent was stopped before it
	// did anything that is not recorded.
	ErrJournal = errors.New("journal cannot be written")
	// ErrJournalVersion: the journal has a newer format, or none of ours.
	ErrJournalVersion = errors.New("journal of another format")
	// ErrUncertain: the call was interrupted, so nobody knows whether it took effect. A
	// tool may return it as well.
	ErrUncertain = errors.New("interrupted, effect uncertain")
	// ErrTooDeep: agents ran in tools of agents deeper than GroupConfig.MaxDepth.
	ErrTooDeep = errors.New("too many agents in tools of agents, one in the other")
	// ErrGroupEnded: the agent ran in a tool of a group that has ended.
	ErrGroupEnded = errors.New("its group has ended")
	// ErrExited: user code ended its goroutine with runtime.Goexit.
	ErrExited = errors.New("ended its goroutine")
)

var errNilContext = errors.New("agentloop: context is nil")

var errSameCall = errors.New("the same as another call of its message")

var errDone = errors.New("the agent was done before")

var errNoResponse = errors.New("model returned neither an answer nor an error")

// brokenOffError is an answer whose finish reason says that it is incomplete.
type brokenOffError struct{ reason chat.FinishReason }

func (e *brokenOffError) Error() string {
	return "model broke off with finish reason " + strconv.Quote(string(e.reason))
}

// A TimeoutError says which timeout of this package ran out. It does not match
// [context.DeadlineExceeded]: that one is the caller's.
type TimeoutError struct {
	// Of is group, agent, draft, or "tool NAME".
	Of    string
	Limit time.Duration

	// Early is how long before Limit agents were stopped to give them time to wind down;
	// see GroupConfig.WindDown.
	Early time.Duration
}

func (e *TimeoutError) Error() string {
	if e.Early > 0 {
		return fmt.Sprintf("agentloop: deadline of %s, %v, is close: stopped %v before it", e.Of, e.Limit, e.Early)
	}
	return fmt.Sprintf("agentloop: deadline of %s passed after %v", e.Of, e.Limit)
}

// Timeout reports true.
func (e *TimeoutError) Timeout() bool { return true }

// A bareError drops the prefix "agentloop: " of an error's text, for use inside of a
// text that has it already.
type bareError struct{ err error }

func (e *bareError) Error() string { return strings.TrimPrefix(e.err.Error(), "agentloop: ") }
func (e *bareError) Unwrap() error { return e.err }

// A PanicError is a panic in a tool, a model or a hook.
type PanicError struct {
	// In says whose code it was: model, draft, rand, or "tool NAME".
	In    string
	Value any
	Stack []byte

	text string // of Value, taken where the panic was
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic in %s: %s", e.In, e.value()) }

func (e *PanicError) value() string {
	if e.text == "" {
		return fmt.Sprint(e.Value)
	}
	return e.text
}

// Unwrap returns an error that matches what the panic's value matches, if that is an
// error. Its methods do not panic.
func (e *PanicError) Unwrap() error {
	if err, ok := e.Value.(error); ok {
		return &userError{err: err, text: e.value(), mute: true}
	}
	return nil
}

// Fatal marks err as one that no model can do anything about. A tool that returns it
// ends its agent as [Failed], and the contexts of calls that run beside it are
// cancelled. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err}
}

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }
