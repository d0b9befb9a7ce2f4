package llmclient

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAttemptsOfACallAreBounded(t *testing.T) {
	add := func(texts ...string) (s attempts) {
		for i, text := range texts {
			s.add(Attempt{Text: text, Bytes: int64(i)})
		}
		return s
	}
	times := func(n int, text string) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = text
		}
		return list
	}
	various := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("e%d", i))
		}
		return list
	}
	join := func(lists ...[]string) (all []string) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	for name, tc := range map[string]struct {
		texts []string
		want  string
	}{
		"two":                       {various(2), "e0"},
		"equal ones":                {times(4, "x"), "3 × x"},
		"not in a row":              {[]string{"x", "y", "x", "z"}, "x; y; x"},
		"five":                      {various(6), "e0; e1; e2; e3; e4"},
		"six":                       {various(7), "e0; e1; 2 others; e4; e5"},
		"as many as are kept":       {times(64, "x"), "63 × x"},
		"one more":                  {times(65, "x"), "64 × x"},
		"many":                      {times(238, "x"), "237 × x"},
		"an early other":            {join([]string{"y"}, times(237, "x")), "y; 236 × x"},
		"another among many":        {join(times(100, "x"), []string{"y"}, times(137, "x")), "100 × x; y; 136 × x"},
		"many, all of them various": {various(300), "e0; e1; 295 others; e297; e298"},
	} {
		t.Run(name, func(t *testing.T) {
			s := add(tc.texts...)
			assert.Equal(t, tc.want, earlier(s.list, s.out))
			assert.Equal(t, len(tc.texts), s.count)
			assert.LessOrEqual(t, len(s.list), 64)
			assert.LessOrEqual(t, len(s.out), maxRuns+1)
			assert.Zero(t, s.list[0].Bytes, "the first is kept")
			assert.EqualValues(t, len(tc.texts)-1, s.list[len(s.list)-1].Bytes, "so is the last")
			if n := len(s.list); n > firstAttempts && s.count > n {
				assert.EqualValues(t, firstAttempts-1, s.list[firstAttempts-1].Bytes)
				assert.EqualValues(t, s.count-lastAttempts, s.list[firstAttempts].Bytes)
			}
		})
	}
}
