package agentloop_test

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

type lookup struct {
	Path  string   `json:"path" jsonschema:"where to look"`
	Limit int      `json:"limit,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	Deep  *bool    `json:"deep,omitempty"`
}

func TestNewToolDerivesTheSchema(t *testing.T) {
	tl, err := agentloop.NewTool("lookup", "Looks up.", func(context.Context, lookup) (string, error) { return "", nil })
	require.NoError(t, err)
	assert.Equal(t, "lookup", tl.Name)
	assert.Equal(t, "Looks up.", tl.Description)
	assert.JSONEq(t, `{
		"type": "object",
		"properties": {
			"path":  {"type": "string", "description": "where to look"},
			"limit": {"type": "integer"},
			"tags":  {"type": "array", "items": {"type": "string"}},
			"deep":  {"type": "boolean"}
		},
		"required": ["path"],
		"additionalProperties": false
	}`, string(tl.Parameters))
}

func TestNewToolRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		make func() (agentloop.Tool, error)
		want string
	}{
		"no function": {func() (agentloop.Tool, error) { return agentloop.NewTool[none, string]("x", "", nil) }, "run is nil"},
		"a bad name":  {func() (agentloop.Tool, error) { return typed[none]("x y") }, `"x y"`},
		"no name":     {func() (agentloop.Tool, error) { return typed[none]("") }, "Name is empty"},
		"a long name": {func() (agentloop.Tool, error) { return typed[none](strings.Repeat("x", 65)) }, "at most 64"},
		"a string":    {func() (agentloop.Tool, error) { return typed[string]("x") }, "want a struct or a map"},
		"a list":      {func() (agentloop.Tool, error) { return typed[[]int]("x") }, "want a struct or a map"},
		"a pointer":   {func() (agentloop.Tool, error) { return typed[*none]("x") }, "want a struct or a map"},
		"anything":    {func() (agentloop.Tool, error) { return typed[any]("x") }, "want a struct or a map"},
		"a channel":   {func() (agentloop.Tool, error) { return typed[struct{ C chan int }]("x") }, "no schema"},
		"a cycle":     {func() (agentloop.Tool, error) { return typed[cycle]("x") }, "no schema"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.make()
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := typed[none](strings.Repeat("x", 64))
	require.NoError(t, err)
}

type cycle struct{ Next *cycle }

func typed[In any](name string) (agentloop.Tool, error) {
	return agentloop.NewTool(name, "", func(context.Context, In) (string, error) { return "", nil })
}

func TestArgumentsThatDoNotFitAreExplained(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"one is missing":      {`{"limit":3}`, `"path"`},
		"one is unknown":      {`{"path":"a","depth":3}`, `"depth"`},
		"case matters":        {`{"Path":"a"}`, `"Path"`},
		"a word for a number": {`{"path":"a","limit":"three"}`, "integer"},
		"a broken number":     {`{"path":"a","limit":1.5}`, "integer"},
		"too large a number":  {`{"path":"a","limit":1e30}`, "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			tl, err := agentloop.NewTool("lookup", "", func(context.Context, lookup) (string, error) { ran = true; return "", nil })
			require.NoError(t, err)
			m := play(calls(call("", "lookup", c.args)), says("ok"))
			res := runOne(t, agentloop.Config{Model: m, Tools: []agentloop.Tool{tl}})
			require.Equal(t, agentloop.Done, res.Outcome)
			text := m.last(chat.RoleTool)[0]
			assert.Contains(t, text, "error: arguments do not fit: ")
			assert.Contains(t, text, c.want)
			assert.Contains(t, text, `"required":["path"]`, "the schema is in it")
			assert.False(t, ran)
		})
	}
}

func TestArgumentsThatFit(t *testing.T) {
	deep := true
	for name, c := range map[string]struct {
		args string
		want lookup
	}{
		"the least":          {`{"path":"a"}`, lookup{Path: "a"}},
		"all":                {`{"path":"a","limit":3,"tags":["x"],"deep":true}`, lookup{"a", 3, []string{"x"}, &deep}},
		"null for absent":    {`{"path":"a","tags":null,"deep":null}`, lookup{Path: "a"}},
		"a large number":     {`{"path":"a","limit":9007199254740993}`, lookup{Path: "a", Limit: 9007199254740993}},
		"a number with .0":   {`{"path":"a","limit":3}`, lookup{Path: "a", Limit: 3}},
		"characters escaped": {`{"path":"\u00e4\n"}`, lookup{Path: "ä\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			tl, err := agentloop.NewTool("lookup", "", func(_ context.Context, in lookup) (lookup, error) { return in, nil })
			require.NoError(t, err)
			out, err := tl.Run(t.Context(), raw(c.args))
			require.NoError(t, err)
			var got lookup
			require.NoError(t, json.Unmarshal([]byte(out), &got))
			assert.Equal(t, c.want, got)
		})
	}
}

func TestResultsOfTools(t *testing.T) {
	text := func(out any) (string, error) {
		tl, err := agentloop.NewTool("x", "", func(context.Context, none) (any, error) { return out, nil })
		require.NoError(t, err)
		return tl.Run(t.Context(), raw(`{}`))
	}
	got, err := text("<b> & co\n")
	require.NoError(t, err)
	assert.Equal(t, "<b> & co\n", got)
	got, err = text(map[string]string{"html": "<b>"})
	require.NoError(t, err)
	assert.Equal(t, `{"html":"<b>"}`, got)
	_, err = text(math.Inf(1))
	require.ErrorContains(t, err, "no JSON form")
}

func TestResultsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		limit int
		text  string
		want  string
	}{
		"up to the limit": {10, "0123456789", "0123456789"},
		"one more":        {10, "0123456789a", "0123456789\n[cut: 10 of 11 bytes shown]"},
		"between letters": {10, "012345678ä", "012345678\n[cut: 9 of 11 bytes shown]"},
		"not at all":      {-1, strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20)},
		"by default":      {0, strings.Repeat("x", 65537), strings.Repeat("x", 65536) + "\n[cut: 65536 of 65537 bytes shown]"},
		"with bad UTF-8":  {10, "a\xffb", "a\uFFFDb"},
		"empty":           {10, "", "(no output)"},
	} {
		t.Run(name, func(t *testing.T) {
			m := play(calls(call("", "read", `{}`)), says("ok"))
			runOne(t, agentloop.Config{Model: m, MaxResult: c.limit, Tools: []agentloop.Tool{tool(t, "read", result(c.text))}})
			if got := m.last(chat.RoleTool)[0]; got != c.want {
				t.Errorf("the model saw %d bytes, want %d", len(got), len(c.want))
			}
		})
	}
}
