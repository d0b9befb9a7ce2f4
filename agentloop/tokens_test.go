package agentloop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/chat"
)

// A counter is a server with a window, which counts in its own way. It serves an agent
// that reads pages, and answers with text at the end.
type counter struct {
	window int
	pages  int
	count  func(n, tokens, before int) *chat.Usage // of request n; before is what the last one had

	n, before int
	most      int   // of the requests, in tokens
	over      []int // requests that were above the window
}

func (s *counter) Chat(ctx context.Context, req *chat.Request) (*chat.Response, error) {
	if err := strict(req.Messages); err != nil {
		return nil, err
	}
	bytes := 0
	for _, m := range req.Messages {
		bytes += len(m.Content)
		for _, c := range m.ToolCalls {
			bytes += len(c.Arguments) + len(c.Name)
		}
	}
	tokens := bytes / 4
	if s.most = max(s.most, tokens); tokens > s.window {
		s.over = append(s.over, tokens)
		return nil, tooLong{}
	}
	s.n++
	next := calls(call("", "read", fmt.Sprintf(`{"i":%d}`, s.n)))
	if s.n > s.pages {
		next = says("done")
	}
	resp, err := next(ctx, req)
	resp.Usage = s.count(s.n, tokens, s.before)
	s.before = tokens
	return resp, err
}

func prompt(n int) *chat.Usage {
	return &chat.Usage{PromptTokens: int64(n), CompletionTokens: 5, TotalTokens: int64(n) + 5}
}

// Not every number that a server gives is the size of the conversation. Nothing is
// thrown away for one that cannot be, and none hides that the window is full.
func TestCountsAreBelievedAsFarAsTheyCanBeTrue(t *testing.T) {
	sum := 0
	honest := func(_, tokens, _ int) *chat.Usage { return prompt(tokens) }
	fixed := func(own int) func(_, tokens, _ int) *chat.Usage {
		return func(_, tokens, _ int) *chat.Usage { return prompt(tokens + own) }
	}
	for name, c := range map[string]struct {
		server  counter
		page    int // bytes
		shrinks bool
	}{
		"honest, with room":                     {server: counter{window: 16000, pages: 20, count: honest}, page: 2000},
		"honest, and full":                      {server: counter{window: 2000, pages: 12, count: honest}, page: 1800, shrinks: true},
		"none":                                  {server: counter{window: 2000, pages: 12, count: func(int, int, int) *chat.Usage { return nil }}, page: 1800, shrinks: true},
		"with a small part of its own":          {server: counter{window: 16000, pages: 2, count: fixed(350)}, page: 8000},
		"with a part of its own":                {server: counter{window: 16000, pages: 2, count: fixed(1200)}, page: 8000},
		"with a large part of its own":          {server: counter{window: 16000, pages: 3, count: fixed(3000)}, page: 8000},
		"with a larger part than is no wonder":  {server: counter{window: 16000, pages: 8, count: fixed(6000)}, page: 2000},
		"with a part of its own, and full":      {server: counter{window: 2000, pages: 12, count: fixed(350)}, page: 1800, shrinks: true},
		"added up, with room":                   {server: counter{window: 16000, pages: 40, count: func(_, tokens, _ int) *chat.Usage { sum += tokens; return prompt(sum) }}, page: 320},
		"added up, and full":                    {server: counter{window: 2000, pages: 30, count: func(_, tokens, _ int) *chat.Usage { sum += tokens; return prompt(sum) }}, page: 500, shrinks: true},
		"wrong once":                            {server: counter{window: 16000, pages: 20, count: wrongOnce}, page: 600},
		"only what is new, and full":            {server: counter{window: 2000, pages: 12, count: func(_, tokens, before int) *chat.Usage { return prompt(max(3, tokens-before)) }}, page: 1800, shrinks: true},
		"only what is new, little, and full":    {server: counter{window: 2000, pages: 20, count: func(_, tokens, before int) *chat.Usage { return prompt(max(3, tokens-before)) }}, page: 500, shrinks: true},
		"without what was in a cache, and full": {server: counter{window: 2000, pages: 12, count: cachedApart}, page: 1800, shrinks: true},
		"without what was in a cache":           {server: counter{window: 16000, pages: 12, count: cachedApart}, page: 2000},
		"with what was in a cache":              {server: counter{window: 16000, pages: 12, count: cachedWithin}, page: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			sum = 0
			n := 0
			read := tool(t, "read", func(context.Context) (string, error) {
				n++
				text := fmt.Sprintf("page %d ", n)
				return text + strings.Repeat("a line. ", (c.page-len(text))/8), nil
			})
			cfg := agentloop.Config{Model: &c.server, Window: c.server.window, Tools: []agentloop.Tool{read}, Request: chat.Request{MaxTokens: c.server.window / 10}}
			res := runOne(t, cfg)
			assert.Equal(t, agentloop.Done, res.Outcome, res.Err)
			assert.Empty(t, c.server.over, "requests above the window")
			assert.Equal(t, c.shrinks, res.Shrinks > 0, "it was shrunk %d times; the largest request took %d", res.Shrinks, c.server.most)
		})
	}
}

func wrongOnce(n, tokens, _ int) *chat.Usage {
	if n == 10 {
		tokens *= 12
	}
	return prompt(tokens)
}

func cachedApart(_, tokens, before int) *chat.Usage {
	u := prompt(max(3, tokens-before))
	u.CachedTokens = int64(before)
	return u
}

func cachedWithin(_, tokens, before int) *chat.Usage {
	u := prompt(tokens)
	u.CachedTokens = int64(before)
	return u
}

// What was read from a cache is in the budget as well.
func TestTheBudgetOfTokensKnowsWhatWasCached(t *testing.T) {
	for name, c := range map[string]struct {
		usage  chat.Usage
		rounds int
	}{
		"within": {chat.Usage{PromptTokens: 1000, CachedTokens: 990, CompletionTokens: 10, TotalTokens: 1010}, 3},
		"apart":  {chat.Usage{PromptTokens: 10, CachedTokens: 990, CompletionTokens: 10, TotalTokens: 20}, 3},
		"none":   {chat.Usage{PromptTokens: 10, CompletionTokens: 10, TotalTokens: 20}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			m := play(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
				n++
				resp, err := calls(call("", "look", fmt.Sprintf(`{"i":%d}`, n)))(ctx, req)
				u := c.usage
				resp.Usage = &u
				return resp, err
			})
			res := runOne(t, agentloop.Config{Model: m, MaxRounds: 20, MaxTotalTokens: 3000, Tools: []agentloop.Tool{tool(t, "look", result("x"))}})
			assert.Equal(t, c.rounds, res.Rounds, res.Err)
		})
	}
}

// A summary that cannot be had at the moment is asked for again, as any answer is.
func TestAPassingFaultOfASummaryIsWaitedOut(t *testing.T) {
	for name, c := range map[string]struct {
		fault     error
		faults    int // in a row, of summaries
		outcome   agentloop.Outcome
		summaries int
		pauses    time.Duration
	}{
		"none":           {nil, 0, agentloop.Done, 1, 0},
		"once":           {passing{}, 1, agentloop.Done, 2, time.Second},
		"with its time":  {passing{after: 7 * time.Second}, 1, agentloop.Done, 2, 7 * time.Second},
		"to the last":    {passing{}, 3, agentloop.Done, 4, (1 + 2 + 4) * time.Second},
		"one too many":   {passing{}, 4, agentloop.Exhausted, 4, (1 + 2 + 4) * time.Second},
		"it is for good": {errWrongKey, 1, agentloop.Exhausted, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rounds, summaries := 0, 0
				m := agentloop.ModelFunc(func(ctx context.Context, req *chat.Request) (*chat.Response, error) {
					if strings.HasPrefix(req.Messages[0].Content, "Sum up") {
						summaries++
						assert.Equal(t, summaries > 1, req.Restart)
						if summaries <= c.faults {
							return nil, c.fault
						}
						return says("Some sections are written.")(ctx, req)
					}
					if rounds++; rounds > 7 {
						return says("done")(ctx, req)
					}
					return calls(call("", "append", fmt.Sprintf(`{"i":%d,"text":%q}`, rounds, strings.Repeat("prose ", 200))))(ctx, req)
				})
				cfg := agentloop.Config{Model: m, Window: 3000, Summarize: true, Tools: []agentloop.Tool{tool(t, "append", result("ok"))}}
				res, _ := runAgent(t, cfg, agentloop.GroupConfig{})
				assert.Equal(t, c.outcome, res.Outcome, res.Err)
				assert.Equal(t, c.summaries, summaries)
				assert.Equal(t, c.pauses, res.Duration)
			})
		})
	}
}
