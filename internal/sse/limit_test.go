package sse_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/neverhang/neverhang/internal/sse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An event's size is that of its lines without their ends. Each case is an
// event of exactly 100 bytes.
func TestLimit(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, tc := range map[string]struct {
		in   string
		want []event
	}{
		"one line":                     {"data: " + x(94) + "\n\n", []event{message(x(94))}},
		"one line, CRLF":               {"data: " + x(94) + "\r\n\r\n", []event{message(x(94))}},
		"one line, CR":                 {"data: " + x(94) + "\r\r", []event{message(x(94))}},
		"two lines":                    {"data:" + x(45) + "\ndata:" + x(45) + "\n\n", []event{message(x(45) + "\n" + x(45))}},
		"names alone":                  {strings.Repeat("data\n", 25) + "\n", []event{message(strings.Repeat("\n", 24))}},
		"a type":                       {"event: " + x(93) + "\n\n", []event{{sse.Ping, x(93), ""}}},
		"an id counts":                 {"id: " + x(86) + "\ndata: yyyy\n\n", []event{message("yyyy")}},
		"a comment is its own":         {": " + x(98) + "\n", []event{ping(x(98))}},
		"a field is its own":           {x(49) + ": " + x(49) + "\n", []event{field(x(49), x(49))}},
		"a comment beside data":        {"data:" + x(45) + "\n:" + x(49) + "\ndata:" + x(45) + "\n\n", []event{ping(x(49)), message(x(45) + "\n" + x(45))}},
		"a byte order mark is no part": {"\xEF\xBB\xBFdata: " + x(94) + "\n\n", []event{message(x(94))}},
		"the second of two":            {"data: " + x(94) + "\n\ndata: " + x(94) + "\n\n", []event{message(x(94)), message(x(94))}},
	} {
		t.Run(name, func(t *testing.T) {
			for how, wrap := range readings {
				got, err := readAll(t, wrap(strings.NewReader(tc.in)), 100)
				assert.Equal(t, tc.want, got, how)
				assert.Equal(t, io.EOF, err, how)

				got, err = readAll(t, wrap(strings.NewReader(tc.in)), 99)
				var large *sse.TooLargeError
				if assert.ErrorAs(t, err, &large, how) {
					assert.Equal(t, 99, large.Limit)
					assert.EqualError(t, err, "sse: event is larger than 99 bytes")
				}
				for _, ev := range got {
					assert.LessOrEqual(t, len(ev.data), 99, how)
				}
			}
		})
	}
}

func TestLimitAtTheEnd(t *testing.T) {
	for name, in := range map[string]string{
		"an unfinished line":  "data: " + strings.Repeat("x", 95),
		"an unfinished event": "data: " + strings.Repeat("x", 40) + "\ndata: " + strings.Repeat("x", 49),
	} {
		t.Run(name, func(t *testing.T) {
			for how, wrap := range readings {
				_, err := readAll(t, wrap(strings.NewReader(in)), 100)
				var large *sse.TooLargeError
				assert.ErrorAs(t, err, &large, how)
				_, err = readAll(t, wrap(strings.NewReader(in[:len(in)-1])), 100)
				assert.Equal(t, io.ErrUnexpectedEOF, err, how)
			}
		})
	}
}

func TestNoLimit(t *testing.T) {
	data := strings.Repeat("x", 3<<20)
	for _, limit := range []int{0, -1} {
		got, err := readAll(t, strings.NewReader("data: "+data+"\n\n"), limit)
		require.Equal(t, io.EOF, err)
		require.Equal(t, []event{message(data)}, got)
	}
}

// Long lines are whole: a tool call's arguments come as one event of any size.
func TestLargeEvents(t *testing.T) {
	var in strings.Builder
	var want []event
	for _, size := range []int{70 << 10, 1<<20 + 1, 5 << 20, 1} {
		data := strings.Repeat("x", size)
		want = append(want, message(data))
		fmt.Fprintf(&in, "data: %s\n\n", data)
	}
	got, err := readAll(t, strings.NewReader(in.String()), 16<<20)
	require.Equal(t, io.EOF, err)
	require.Equal(t, want, got)
}

// What is allocated, in all, to read streams that try to make it much.
func TestMemory(t *testing.T) {
	const limit = 1 << 20
	line := strings.Repeat("x", 1000)
	for name, tc := range map[string]struct {
		in      io.Reader
		tooLong bool
	}{
		"an event without end":            {in: io.MultiReader(strings.NewReader("data: "), endless("x", 64*limit)), tooLong: true},
		"an event of lines without end":   {in: endless("data: "+line+"\n", 64*limit), tooLong: true},
		"an event of ids without end":     {in: endless("id: "+line+"\n", 64*limit), tooLong: true},
		"a comment without end":           {in: io.MultiReader(strings.NewReader(":"), endless("x", 64*limit)), tooLong: true},
		"one event of the limit":          {in: io.MultiReader(strings.NewReader("data:"), endless("x", limit-5), strings.NewReader("\n\n"))},
		"many events":                     {in: endless("data: "+line+"\n\n", 64*limit)},
		"blank lines":                     {in: endless("\r\n", 4*limit)},
		"comments within a large event":   {in: io.MultiReader(endless("data: "+line+"\n", limit/2), endless(": "+line+"\n", 64*limit), strings.NewReader("\n"))},
		"an event just below, many lines": {in: io.MultiReader(endless("data\n", limit), strings.NewReader("\n"))},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := sse.NewReader(tc.in, limit)
			var err error
			for err == nil {
				_, err = r.Next()
			}
			runtime.ReadMemStats(&after)
			var large *sse.TooLargeError
			require.Equal(t, tc.tooLong, errors.As(err, &large), "%v", err)

			// Doubling up to the limit, and then the limit itself.
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3*limit+limit/4))
		})
	}
}

// endless returns a reader of s repeated to at most size bytes.
func endless(s string, size int) io.Reader {
	block := []byte(strings.Repeat(s, 1+64<<10/len(s)))
	size -= size % len(s)
	at := 0
	return readFunc(func(p []byte) (int, error) {
		if size == 0 {
			return 0, io.EOF
		}
		n := copy(p[:min(len(p), size)], block[at:])
		at = (at + n) % len(block)
		size -= n
		return n, nil
	})
}
