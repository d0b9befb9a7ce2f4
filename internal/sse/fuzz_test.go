package sse_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/neverhang/neverhang/internal/sse"
	"github.com/stretchr/testify/require"
)

// FuzzReader holds the reader against a slow and plain one that sees all bytes
// at once, for any way in which reads may cut them up.
func FuzzReader(f *testing.F) {
	for _, in := range []string{
		"data: a\r\n\r\ndata: b\n\n",
		"\xEF\xBB\xBFdata: a\rdata\revent:x\r\r:c\rid\r\r",
		"data: a\n\n\xEF\xBB\xBFdata: b\n\xEF\xBB\xBF\n\xEF\xBB\xBF:c\n\n",
		": ping\n\nevent: ping\n\nid: 7\n\nretry: 5\n\ndata: b\n\ndata: [DONE]\n\n",
		"error: {\"code\":500}\n\ndata: cut sho",
		"data: 0123456789\n:0123456789012345678901\ndata: 0123456789\n\n",
	} {
		f.Add([]byte(in), uint64(1), 24)
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, limit int) {
		limit = 1 + int(uint(limit)%256)
		wantEvents, wantErr := reference(in, limit)
		random := rand.New(rand.NewPCG(seed, 0))
		for _, src := range []io.Reader{
			bytes.NewReader(in),
			readFunc(cut(in, func() int { return 1 })),
			readFunc(cut(in, func() int { return random.IntN(8) })),
		} {
			events, err := readAll(t, src, limit)
			require.Equal(t, wantEvents, events)
			require.Equal(t, wantErr, err)
		}
		var split [2][]event
		for i, src := range []io.Reader{bytes.NewReader(in), readFunc(cut(in, func() int { return random.IntN(8) }))} {
			r := sse.NewReader(src, limit)
			r.Split(func(line []byte) bool { return len(line)%2 == 1 })
			split[i], _ = drain(t, r)
		}
		require.Equal(t, split[0], split[1])
	})
}

// cut returns a Read that gives as many bytes as next says; the last ones come
// with the end.
func cut(in []byte, next func() int) func([]byte) (int, error) {
	return func(p []byte) (int, error) {
		n := copy(p, in[:min(len(in), next())])
		in = in[n:]
		if len(in) == 0 {
			return n, io.EOF
		}
		return n, nil
	}
}

// reference reads a whole stream, after the standard's own grammar.
func reference(in []byte, limit int) (events []event, err error) {
	text := strings.TrimPrefix(string(in), "\xEF\xBB\xBF")
	var typ string
	var data []string
	var size int
	var open bool
	for {
		at := strings.IndexAny(text, "\r\n")
		line := text
		if at >= 0 {
			line = text[:at]
		}
		if size+len(line) > limit {
			return events, &sse.TooLargeError{Limit: limit}
		}
		if at < 0 {
			if line != "" || open {
				return events, io.ErrUnexpectedEOF
			}
			return events, io.EOF
		}
		if strings.HasPrefix(text[at:], "\r\n") {
			at++
		}
		text = text[at+1:]
		for strings.HasPrefix(line, "\xEF\xBB\xBF") {
			line = line[3:]
		}

		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			ev := event{sse.Message, typ, strings.Join(data, "\n")}
			if ev.data == "" {
				ev.kind = sse.Ping
			}
			if open {
				events = append(events, ev)
			}
			typ, data, size, open = "", nil, 0, false
			continue
		case name == "" && line[0] == ':':
			events = append(events, ping(value))
			continue
		case name == "data":
			data = append(data, value)
		case name == "event":
			typ = value
		case name != "id" && name != "retry":
			events = append(events, field(name, value))
			continue
		}
		open, size = true, size+len(line)
	}
}
