package llmclient_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestLoggerGetsEachEventOnItsLevel(t *testing.T) {
	var log bytes.Buffer
	levels := func() (list []string) {
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, "level=")
			level, rest, _ := strings.Cut(line, " msg=\"neverhang: ")
			kind, _, _ := strings.Cut(rest, "\"")
			list = append(list, level+" "+kind)
		}
		return list
	}
	set := func(c *llmclient.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Retry.Attempts = 2
	}
	inWorld(t, script(fake.Unavailable(), fake.Answer("ok"), fake.Error(400, "invalid", "", "no")), set, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.NoError(t, err)
		assert.Equal(t, []string{"DEBUG attempt", "WARN failed", "WARN retry", "DEBUG attempt", "DEBUG done"}, levels())
		log.Reset()
		_, err = w.client.Chat(t.Context(), hello())
		failure(t, err, llmclient.ErrRequest)
		assert.Equal(t, []string{"DEBUG attempt", "WARN failed", "ERROR done"}, levels())
		assert.Contains(t, log.String(), ` err="llmclient: `)
	})
}
