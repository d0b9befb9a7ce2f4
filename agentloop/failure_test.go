package agentloop_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// Failures that differ in what changes by itself are no news, whatever is asked.
func TestFailuresAreNoNewsBecauseTheirTextDiffers(t *testing.T) {
	n := 0
	text := map[string]func() string{
		"a number":    func() string { return fmt.Sprintf("request %d failed", n) },
		"a time":      func() string { return fmt.Sprintf("2026-01-02T03:%02d:%02dZ upstream gone", n/60, n%60) },
		"an id":       func() string { return fmt.Sprintf("error (id req_%016x): bad gateway", rand.Uint64()) },
		"a pointer":   func() string { return fmt.Sprintf("panic at 0x%x", 0xc000010000+int64(n)*64) },
		"the request": func() string { return fmt.Sprintf("no such item n%d", n) },
	}
	ask := map[string]struct {
		args   func(n int) string
		rounds int
	}{
		"the same call":       {func(int) string { return `{}` }, 11},
		"a cycle":             {func(n int) string { return fmt.Sprintf(`{"i":%d}`, n%3) }, 13},
		"another call":        {func(n int) string { return fmt.Sprintf(`{"i":"n%d"}`, n) }, 30},
		"another, and long":   {func(n int) string { return fmt.Sprintf(`{"i":"n%d","text":"%s"}`, n, strings.Repeat("w", 500)) }, 31},
		"one label of a call": {func(n int) string { return fmt.Sprintf(`{"a":1,"label":"try %d"}`, n) }, 30},
	}
	for what, text := range text {
		for how, c := range ask {
			t.Run(how+" with "+what, func(t *testing.T) {
				n = 0
				bad := tool(t, "bad", func(context.Context) (string, error) { n++; return "", errors.New(text()) })
				warned, blocked := 0, 0
				res := runOne(t, agentloop.Config{
					Model: numbered(func(n int) []chat.ToolCall { return []chat.ToolCall{call("", "bad", c.args(n))} }),
					Tools: []agentloop.Tool{bad}, MaxRounds: 500,
					OnEvent: func(e agentloop.Event) {
						switch {
						case e.Kind == agentloop.EventWarned:
							warned++
						case e.Kind == agentloop.EventToolRefused:
							blocked++
						}
					},
				})
				assert.Equal(t, agentloop.Stalled, res.Outcome)
				assert.ErrorIs(t, res.Err, agentloop.ErrRepeating)
				assert.InDelta(t, c.rounds, res.Rounds, 1)
				assert.Positive(t, warned)
				assert.Positive(t, blocked)
			})
		}
	}
}

// Arguments that never fit are failures like others.
func TestArgumentsThatNeverFitEndTheRun(t *testing.T) {
	typed, err := agentloop.NewTool("typed", "", func(context.Context, struct {
		I int `json:"i"`
	}) (string, error) {
		return "x", nil
	})
	require.NoError(t, err)
	res := runOne(t, agentloop.Config{
		Model: numbered(func(n int) []chat.ToolCall { return []chat.ToolCall{call("", "typed", fmt.Sprintf(`{"i":"n%d"}`, n))} }),
		Tools: []agentloop.Tool{typed}, MaxRounds: 500,
	})
	assert.ErrorIs(t, res.Err, agentloop.ErrRepeating)
	assert.Equal(t, 30, res.Rounds)
}

// Work that goes on through failures is work: a compiler whose errors shrink while
// files are edited, texts that are refused for another reason each time, and one
// failure more or less between things that succeed.
func TestWorkThroughFailuresIsNoRepeat(t *testing.T) {
	const rounds = 120
	words := func(n int) string { // a name for a number, without digits
		name := ""
		for ; n > 0; n /= 26 {
			name += string(rune('a' + n%26))
		}
		return "undefined " + name + "x"
	}
	left := 0
	compile := tool(t, "compile", func(context.Context) (string, error) {
		list := []string{}
		for i := range left {
			list = append(list, fmt.Sprintf("main.go:%d: %s", 100+i, words(i+1)))
		}
		return "", errors.New(strings.Join(list, "\n"))
	})
	edit := tool(t, "edit", func(context.Context) (string, error) { left--; return "ok", nil })
	save := tool(t, "save", func(context.Context) (string, error) { left--; return "", errors.New(words(left)) })
	look := tool(t, "look", func(context.Context) (string, error) {
		left--
		if left%9 == 0 {
			return words(left), nil
		}
		return "", errors.New("not there")
	})
	for name, turn := range map[string]func(n int) chat.ToolCall{
		"a compiler and short edits": func(n int) chat.ToolCall {
			if n%2 == 0 {
				return call("", "compile", `{}`)
			}
			return call("", "edit", fmt.Sprintf(`{"line":%d}`, n))
		},
		"a compiler after three edits each": func(n int) chat.ToolCall {
			if n%4 == 0 {
				return call("", "compile", `{}`)
			}
			return call("", "edit", fmt.Sprintf(`{"line":%d}`, n))
		},
		"long texts refused for other reasons": func(n int) chat.ToolCall {
			return call("", "save", fmt.Sprintf(`{"text":"%d %s"}`, n, strings.Repeat("w", 200)))
		},
		"a search with few finds": func(n int) chat.ToolCall { return call("", "look", fmt.Sprintf(`{"at":%d}`, n)) },
	} {
		t.Run(name, func(t *testing.T) {
			left = 2 * rounds
			res := runOne(t, agentloop.Config{
				Model:     numbered(func(n int) []chat.ToolCall { return []chat.ToolCall{turn(n)} }),
				MaxRounds: rounds, Tools: []agentloop.Tool{compile, edit, save, look},
			})
			assert.ErrorIs(t, res.Err, agentloop.ErrRounds)
			assert.Equal(t, rounds, res.Rounds)
		})
	}
	t.Run("but edits that leave the errors as they are", func(t *testing.T) {
		left = 3
		stuck := tool(t, "edit", result("ok"))
		res := runOne(t, agentloop.Config{
			Model: numbered(func(n int) []chat.ToolCall {
				if n%2 == 0 {
					return []chat.ToolCall{call("", "compile", `{}`)}
				}
				return []chat.ToolCall{call("", "edit", fmt.Sprintf(`{"line":%d}`, n))}
			}),
			MaxRounds: rounds, Tools: []agentloop.Tool{compile, stuck},
		})
		assert.ErrorIs(t, res.Err, agentloop.ErrRepeating)
	})
}
