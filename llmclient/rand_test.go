package llmclient_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// The waits between attempts are spread by Config.Rand, and lie within their bounds
// even if it returns nonsense.
func TestRandSpreadsWaits(t *testing.T) {
	always := func(x float64) func() float64 { return func() float64 { return x } }
	for name, tc := range map[string]struct {
		reply       fake.Step
		rand        func() float64
		least, most time.Duration
	}{
		"backoff, the least":       {fake.Unavailable(), always(0), 375 * time.Millisecond, 375 * time.Millisecond},
		"backoff, in the middle":   {fake.Unavailable(), always(0.5), 500 * time.Millisecond, 500 * time.Millisecond},
		"backoff, nearly the most": {fake.Unavailable(), always(0.75), 562500 * time.Microsecond, 562500 * time.Microsecond},
		"1 is not in [0, 1)":       {fake.Unavailable(), always(1), 375 * time.Millisecond, 625 * time.Millisecond},
		"nor is -1":                {fake.Unavailable(), always(-1), 375 * time.Millisecond, 625 * time.Millisecond},
		"no number":                {fake.Unavailable(), always(math.NaN()), 375 * time.Millisecond, 625 * time.Millisecond},
		"a panic":                  {fake.Unavailable(), func() float64 { panic("no luck") }, 375 * time.Millisecond, 625 * time.Millisecond},
		"by default":               {fake.Unavailable(), nil, 375 * time.Millisecond, 625 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, script(tc.reply, fake.Answer("ok")), func(c *llmclient.Config) {
				c.Retry.Jitter, c.Rand = 0, tc.rand
			}, func(t *testing.T, w *world) {
				_, err := w.client.Chat(t.Context(), hello())
				require.NoError(t, err)
				waits := w.ofKind(llmclient.EventRetry)
				require.Len(t, waits, 1)
				assert.GreaterOrEqual(t, waits[0].Wait, tc.least)
				assert.LessOrEqual(t, waits[0].Wait, tc.most)
			})
		})
	}
}
