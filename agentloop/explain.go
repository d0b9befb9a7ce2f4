package agentloop

import (
	"context"
	"slices"
	"strings"
	"time"
)

const (
	// explainTime is how long Explain may take.
	explainTime = 100 * time.Millisecond
	// maxLine bounds the explanation in bytes; maxLines bounds how many the report
	// keeps.
	maxLine  = 1000
	maxLines = 100
)

// explain asks Explain what may be the matter with an endpoint, and returns "" if
// the answer takes too long. While a call of Explain is under way there is no
// second one: at most one goroutine hangs in it.
func (g *groupRun) explain(ctx context.Context, endpoint string) string {
	ask := g.cfg.Explain
	if ask == nil || !g.asking.CompareAndSwap(false, true) {
		return ""
	}
	back := make(chan string, 1)
	go func() {
		text := ""
		defer func() {
			_ = recover()
			g.asking.Store(false)
			back <- text
		}()
		text = ask(endpoint)
	}()
	patience := time.NewTimer(explainTime)
	defer patience.Stop()
	select {
	case text := <-back:
		text = bounded(strings.Join(strings.Fields(text), " "), maxLine)
		g.mu.Lock()
		defer g.mu.Unlock()
		if text != "" && len(g.said) < maxLines && !slices.Contains(g.said, text) {
			g.said = append(g.said[:len(g.said):len(g.said)], text)
		}
		return text
	case <-patience.C:
	case <-ctx.Done():
	}
	return ""
}

// explained appends an explanation to a text.
func explained(text, why string) string {
	if text == "" || why == "" {
		return text + why
	}
	return text + "; " + why
}
