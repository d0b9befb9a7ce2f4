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
	// maxLine bounds what it says, in bytes, and maxLines how much of it the
	// report keeps.
	maxLine  = 1000
	maxLines = 100
)

// explain asks Explain what may be the matter, and returns "" if it does not say
// so soon. While it has not answered it is not asked again: of what hangs there is
// one.
func (g *groupRun) explain(ctx context.Context) string {
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
		text = ask()
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

// explained puts an explanation behind a text.
func explained(text, why string) string {
	if text == "" || why == "" {
		return text + why
	}
	return text + "; " + why
}
