package agentloop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Tool is a function that a model may call. [NewTool] makes one from a typed
// function; its other fields may be set afterwards.
type Tool struct {
	// Name is the tool's name for the model: letters, digits, _ and -, at most 64.
	Name string

	// Description tells the model what the tool does and when to use it.
	Description string

	// Parameters is the JSON Schema of the arguments, an object. Empty means
	// an object without properties.
	Parameters json.RawMessage

	// Run does the work. args is a JSON object. The model sees the returned text as the
	// result. If there is an error, it sees the error's text, which should say what to
	// do better, and after it the returned text. See also [Fatal].
	//
	// Calls of one message run at the same time, and agents share the tool, so Run must
	// be safe for concurrent use. When ctx ends Run should return. If it does not, it is
	// left behind and what it returns later is dropped. [CallID] of ctx is a key with
	// which a service can recognise a repeated request.
	Run func(ctx context.Context, args json.RawMessage) (string, error)

	// Timeout bounds each call. Zero means Config.ToolTimeout, or none if RunsAgents is
	// set. A negative value means none: then only the agent's end stops the call.
	Timeout time.Duration

	// RunsAgents says that the tool runs agents with its context (see [Agent.Run]).
	// These have bounds of their own and are watched, so the tool has no timeout but the
	// group's. Without RunsAgents, the tool and its agents are stopped after a minute,
	// unless Timeout is longer.
	RunsAgents bool

	// Sequential tools run alone: after all earlier calls of the same message and before
	// all later ones. Set it where the order of calls matters (write, then append).
	//
	// Equal calls in one message are run once and share the result. They are run each if
	// the tool is Polling or its Effect is EffectNone, or if a call with an effect
	// stands between them: one of another tool, or, for a Sequential tool, one of the
	// same tool.
	Sequential bool

	// Effect says what a call changes. The zero value is the careful one.
	Effect Effect

	// Replay, if not nil, is called instead of Run when an agent goes on from its
	// journal, for each call that succeeded before, with its recorded result. A tool
	// that keeps something in memory can update it that way. Replay must change nothing
	// else. An error ends the agent as Failed.
	Replay func(ctx context.Context, args json.RawMessage, result string) error

	// Polling tools may be called again and again with the same result; that does not
	// count as repetition.
	Polling bool

	// Fatal tools are essential for the work: an error of one ends its agent as
	// [Failed], as if the error were made with [Fatal].
	Fatal bool
}

// An Effect says what a call of a tool changes, and so what to do about a call that
// may or may not have taken effect.
type Effect int

const (
	// EffectOnce changes something, and a second call does harm. A call of unknown
	// outcome is neither repeated nor demanded again: the model and the result are told
	// that it is uncertain. The outcome is unknown if the call was under way when the
	// process ended, did not return in time, was stopped or panicked, or if its error
	// matches [ErrUncertain] or [context.DeadlineExceeded].
	EffectOnce Effect = iota
	// EffectIdempotent changes something, but repeating a call does no harm.
	EffectIdempotent
	// EffectNone changes nothing that would outlive the agent.
	EffectNone
)

// NewTool returns a tool that runs a typed function. In is a struct, or a map with
// string keys. Its JSON Schema is derived from the type as [jsonschema.For] does:
// json tags give the names, fields without omitempty or omitzero are required, and
// `jsonschema:"text"` describes a field. If arguments do not fit, run is not called,
// and the model gets an error that tells why. An Out that is a string is the result
// as it is; anything else becomes JSON.
func NewTool[In, Out any](name, description string, run func(ctx context.Context, in In) (Out, error)) (Tool, error) {
	if run == nil {
		return Tool{}, fmt.Errorf("agentloop: tool %q: run is nil", name)
	}
	if err := checkToolName(name); err != nil {
		return Tool{}, err
	}
	s, err := schemaOf[In]()
	if err != nil {
		return Tool{}, fmt.Errorf("agentloop: tool %q: %w", name, err)
	}
	t := Tool{Name: name, Description: description, Parameters: s.sent}
	t.Run = func(ctx context.Context, args json.RawMessage) (string, error) {
		in, err := decode[In](s, args)
		if err != nil {
			return "", err
		}
		out, err := run(ctx, in)
		if err != nil {
			return beside(out), err
		}
		return render(out)
	}
	return t, nil
}

// A schema validates arguments, and has a form for the model.
type schema struct {
	resolved *jsonschema.Resolved
	sent     json.RawMessage
}

func schemaOf[In any]() (*schema, error) {
	typ := reflect.TypeFor[In]()
	s, err := jsonschema.For[In](nil)
	if err != nil {
		return nil, fmt.Errorf("no schema for %v: %w", typ, err)
	}
	if s.Type != "object" {
		return nil, fmt.Errorf("arguments are %v, want a struct or a map with string keys", typ)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("no schema for %v: %w", typ, err)
	}
	shown := s.CloneSchemas()
	withoutNull(shown)
	sent, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("no schema for %v: %w", typ, err)
	}
	return &schema{resolved: resolved, sent: sent}, nil
}

// withoutNull removes null from types like ["null","array"], which Go slices and
// pointers have: servers that build a grammar from the schema know only single types.
// Null is still accepted in arguments.
func withoutNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, p := range s.Properties {
		withoutNull(p)
	}
	withoutNull(s.Items)
	withoutNull(s.AdditionalProperties)
}

func decode[In any](s *schema, args json.RawMessage) (In, error) {
	var in In
	var plain map[string]any
	if err := json.Unmarshal(args, &plain); err != nil {
		return in, fmt.Errorf("arguments are no JSON object: %w", err)
	}
	if err := s.resolved.Validate(plain); err != nil {
		return in, &misfitError{err: err, want: s.sent}
	}
	d := json.NewDecoder(bytes.NewReader(args))
	if err := d.Decode(&in); err != nil {
		return in, &misfitError{err: err, want: s.sent}
	}
	return in, nil
}

// misfitError tells the model what is wrong with its arguments.
type misfitError struct {
	err  error
	want json.RawMessage
}

func (e *misfitError) Error() string {
	// The validator names each schema on the way down; the model needs the
	// last part.
	text := strings.TrimPrefix(e.err.Error(), "validating root: ")
	return fmt.Sprintf("arguments do not fit: %s. The schema is %s", text, e.want)
}

func (e *misfitError) Unwrap() error { return e.err }

// beside renders the value that a function returned with its error, if it is not
// zero.
func beside[Out any](out Out) string {
	if reflect.ValueOf(&out).Elem().IsZero() {
		return ""
	}
	text, err := render(out)
	if err != nil {
		return "" // the error that it returned says more
	}
	return text
}

func render(out any) (string, error) {
	if s, ok := out.(string); ok {
		return s, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return "", fmt.Errorf("result has no JSON form: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func (t *Tool) check() error {
	if err := checkToolName(t.Name); err != nil {
		return err
	}
	if t.Run == nil {
		return fmt.Errorf("agentloop: tool %q: Run is nil", t.Name)
	}
	if t.Effect < EffectOnce || t.Effect > EffectNone {
		return fmt.Errorf("agentloop: tool %q: Effect is %d, want one of the constants", t.Name, t.Effect)
	}
	if p := bytes.TrimSpace(t.Parameters); len(p) > 0 && (p[0] != '{' || !json.Valid(p)) {
		return fmt.Errorf("agentloop: tool %q: Parameters is no JSON object", t.Name)
	}
	return nil
}

func checkToolName(name string) error {
	if name == "" {
		return errors.New("agentloop: a tool's Name is empty")
	}
	if len(name) > maxNameLen || strings.ContainsFunc(name, notInName) {
		return fmt.Errorf("agentloop: tool name %q, want at most %d letters, digits, _ or -", name, maxNameLen)
	}
	return nil
}

// maxNameLen is the longest name of a function that servers accept.
const maxNameLen = 64

func notInName(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
		return false
	}
	return true
}
