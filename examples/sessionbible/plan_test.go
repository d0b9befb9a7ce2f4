package main

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// conversation builds a session from lines like "user: some words",
// "assistant: some words", "tool: grep" and "aborted:".
func conversation(lines ...string) *session {
	s := &session{ID: "ses_t", Title: "A talk"}
	for i, line := range lines {
		role, text, _ := strings.Cut(line, ":")
		m := message{Index: i, Role: role}
		switch text = strings.TrimSpace(text); role {
		case "tool":
			m.Role, m.Parts = "assistant", []part{{Kind: partTool, Tool: text, Status: "completed", Output: "out"}}
		case "aborted":
			m.Role, m.Ended = "assistant", "MessageAbortedError"
		default:
			if text != "" {
				m.Parts = []part{{Kind: partText, Text: text}}
			}
		}
		s.Messages = append(s.Messages, m)
	}
	return s
}

func ranges(plan []article) string {
	var out []string
	for _, a := range plan {
		out = append(out, fmt.Sprintf("%d-%d", a.First, a.Last))
	}
	return strings.Join(out, " ")
}

func TestEachMessageBelongsToOneArticle(t *testing.T) {
	for name, c := range map[string]struct {
		s    *session
		want string
	}{
		"a message worth one gets one":          {conversation("user: please do this for me", "assistant: Done."), "0-0 1-1"},
		"a short word goes with its answer":     {conversation("user: please do this for me", "tool: bash", "user: go on", "tool: bash"), "0-0 1-1 2-3"},
		"an answer of nothing goes before":      {conversation("user: please do this for me", "aborted:", "tool: bash"), "0-1 2-2"},
		"nothing but an aborted first answer":   {conversation("user: hi", "aborted:", "tool: bash"), "0-2"},
		"a short word at the end":               {conversation("user: please do this for me", "tool: bash", "user: thanks"), "0-0 1-2"},
		"a short word, then an aborted answer":  {conversation("user: please do this for me", "user: go", "aborted:", "tool: ls"), "0-0 1-3"},
		"signs count where no spaces part them": {conversation("user: 请修复这个错误", "tool: bash"), "0-0 1-1"},
		"nothing worth an article":              {conversation("user: hi", "aborted:"), ""},
	} {
		assert.Equal(t, c.want, ranges(planArticles(c.s, 0)), name)
	}
}

func TestFewerArticlesJoinTheLightestNeighbours(t *testing.T) {
	long := "assistant: " + strings.Repeat("word ", 1000)
	s := conversation("user: please do this for me", "tool: a", "tool: b", long,
		"user: and now do that for me", "tool: c", long)
	for count, want := range map[int]string{
		7: "0-0 1-1 2-2 3-3 4-4 5-5 6-6",
		4: "0-2 3-3 4-5 6-6",
		2: "0-3 4-6",
		1: "0-6",
	} {
		plan := planArticles(s, count)
		assert.Equal(t, want, ranges(plan), "%d articles", count)
		for i, a := range plan {
			assert.Equal(t, i+1, a.Number)
			assert.NotEmpty(t, a.Subject)
		}
	}
	assert.Len(t, planArticles(s, 50), 7, "there are no more than are worth it")
}

func TestEveryNumberOfArticlesCanBeHad(t *testing.T) {
	s, err := readSession("")
	require.NoError(t, err)
	for want := 1; want <= 45; want++ {
		plan := planArticles(s, want)
		require.Len(t, plan, want)
		next := 0
		for _, a := range plan {
			require.Equal(t, next, a.First)
			next = a.Last + 1
		}
		require.Equal(t, len(s.Messages), next)
	}
}

func TestSubject(t *testing.T) {
	for name, c := range map[string]struct {
		s    *session
		want string
	}{
		"the user's words":       {conversation("user: please do this for me", "assistant: Done and dusted."), "please do this for me"},
		"not a user's short one": {conversation("user: go", "assistant: I renamed all the things."), "I renamed all the things"},
		"else the tools":         {conversation("tool: grep", "tool: grep", "tool: read"), "Tools used: grep, read"},
	} {
		a := article{First: 0, Last: len(c.s.Messages) - 1}
		assert.Equal(t, c.want, strings.TrimSuffix(subject(c.s, a), "."), name)
	}
}

func TestCutKeepsRunesWhole(t *testing.T) {
	s := strings.Repeat("äöü€ ", 40)
	for limit := 4; limit < len(s); limit++ {
		got := cut(s, limit)
		require.LessOrEqual(t, len(got), limit)
		require.True(t, utf8.ValidString(got), "%q", got)
	}
	assert.Equal(t, "short", cut("short", 5))
}

func TestPaginateLosesNothing(t *testing.T) {
	text := strings.Repeat("a line of text €\n", 2000) + strings.Repeat("ü", 9000)
	for _, size := range []int{7, 100, 8000} {
		parts := paginate(text, size)
		assert.Equal(t, text, strings.Join(parts, ""))
		for _, p := range parts {
			assert.LessOrEqual(t, len(p), size)
			assert.True(t, utf8.ValidString(p))
		}
	}
	assert.Equal(t, []string{""}, paginate("", 10))
}
