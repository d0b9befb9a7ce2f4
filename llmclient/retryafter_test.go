package llmclient

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "-1", "1e300", "NaN", "Inf", "0x10", "Wed, 21 Oct 2015 07:28:00 GMT", "Sun, 06 Nov 9994 08:49:37 GMT", " 5 ", "5s"} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, ms, after, date string) {
		h := http.Header{}
		h.Set("Retry-After-Ms", ms)
		h.Set("Retry-After", after)
		h.Set("Date", date)
		d, ok := parseRetryAfter(h, time.Now())
		assert.GreaterOrEqual(t, d, time.Duration(0))
		assert.LessOrEqual(t, d, maxRetryAfter)
		if !ok {
			assert.Zero(t, d)
		}
	})
}
