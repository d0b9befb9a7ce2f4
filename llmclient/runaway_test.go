package llmclient

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLoopGuard(t *testing.T) {
	var table, unique strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&table, "| %d | 0 | 0 | 0 |\n", i)
		fmt.Fprintf(&unique, "word%d ", i*7919%10007)
	}
	tests := map[string]struct {
		text string
		want bool
	}{
		"one letter":                     {strings.Repeat("a", 80<<10), true},
		"one word":                       {strings.Repeat("again ", 16<<10), true},
		"a sentence":                     {strings.Repeat("I will now call the tool that I called before. ", 2<<10), true},
		"a thousand bytes":               {strings.Repeat(unique.String()[:1000], 90), true},
		"after something sensible":       {unique.String()[:50<<10] + strings.Repeat("and so on ", 8<<10), true},
		"a table of zeros with a number": {table.String(), false},
		"different words":                {unique.String(), false},
		"not enough of it":               {strings.Repeat("a", 63<<10), false},
		"two thousand bytes":             {strings.Repeat(unique.String()[:2000], 50), false},
		"almost":                         {strings.Repeat(strings.Repeat("a", 20<<10)+"b", 4), false},
	}
	for name, tc := range tests {
		for _, size := range []int{1, 7, 100, 4096, 1 << 20} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				g := loopDetector{limit: defaultRepeatBytes}
				found := false
				for s := tc.text; s != "" && !found; {
					n := min(size, len(s))
					found = g.feed(s[:n])
					s = s[n:]
				}
				assert.Equal(t, tc.want && size <= bytesPerPiece, found)
				assert.LessOrEqual(t, cap(g.tail), 16*defaultRepeatBytes, "memory")
			})
		}
	}
}
