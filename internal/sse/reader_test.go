package sse_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/internal/sse"
)

// event is an sse.Event that outlives the next call of Next.
type event struct {
	kind sse.Kind
	typ  string
	data string
}

func message(data string) event     { return event{kind: sse.Message, data: data} }
func ping(text string) event        { return event{kind: sse.Ping, data: text} }
func field(name, text string) event { return event{kind: sse.Field, typ: name, data: text} }
func named(typ, data string) event  { return event{kind: sse.Message, typ: typ, data: data} }

// readAll returns everything that src says and the error it ends with.
func readAll(t testing.TB, src io.Reader, limit int) ([]event, error) {
	t.Helper()
	return drain(t, sse.NewReader(src, limit))
}

func drain(t testing.TB, r *sse.Reader) ([]event, error) {
	t.Helper()
	var all []event
	for {
		ev, err := r.Next()
		if err != nil {
			_, again := r.Next()
			require.Equal(t, err, again, "the error must stay")
			return all, err
		}
		all = append(all, event{ev.Kind, ev.Type, string(ev.Data)})
	}
}

func TestNext(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []event
		err  error // io.EOF if nil
	}{
		"nothing at all":                          {in: ""},
		"only blank lines":                        {in: "\n\r\n\r\r\n\n"},
		"lines end with LF":                       {in: "data: a\n\ndata: b\n\n", want: []event{message("a"), message("b")}},
		"lines end with CRLF":                     {in: "data: a\r\n\r\ndata: b\r\n\r\n", want: []event{message("a"), message("b")}},
		"lines end with CR":                       {in: "data: a\r\rdata: b\r\r", want: []event{message("a"), message("b")}},
		"line ends in any mixture":                {in: "data: a\r\n\ndata: b\r\r\ndata: c\n\r\ndata: d\n\r", want: []event{message("a"), message("b"), message("c"), message("d")}},
		"LF CR are two line ends":                 {in: "data: a\n\rdata: b\n\r", want: []event{message("a"), message("b")}},
		"CR CRLF are two line ends":               {in: "data: a\r\r\ndata: b\r\r\n", want: []event{message("a"), message("b")}},
		"several lines of data":                   {in: "data: a\ndata: b\ndata: c\n\n", want: []event{message("a\nb\nc")}},
		"several lines of data, CRLF":             {in: "data: a\r\ndata: b\r\ndata: c\r\n\r\n", want: []event{message("a\nb\nc")}},
		"empty lines within the data":             {in: "data: a\ndata\ndata:\ndata: b\n\n", want: []event{message("a\n\n\nb")}},
		"data that is one line end":               {in: "data\ndata\n\n", want: []event{message("\n")}},
		"no space after the colon":                {in: "data:a\n\n", want: []event{message("a")}},
		"only one space is dropped":               {in: "data:  a \n\n", want: []event{message(" a ")}},
		"a tab is not dropped":                    {in: "data:\ta\n\n", want: []event{message("\ta")}},
		"only the first colon parts":              {in: "data: a: b\n\n", want: []event{message("a: b")}},
		"a field without a colon":                 {in: "data\nevent\ndata: a\n\n", want: []event{message("\na")}},
		"an event with a type":                    {in: "event: error\ndata: a\n\ndata: b\n\n", want: []event{named("error", "a"), message("b")}},
		"the type after the data":                 {in: "data: a\nevent: x\n\n", want: []event{named("x", "a")}},
		"the last type counts":                    {in: "event: x\nevent: y\ndata: a\n\n", want: []event{named("y", "a")}},
		"a type without data does not stay":       {in: "event: x\n\ndata: a\n\n", want: []event{{sse.Ping, "x", ""}, message("a")}},
		"empty data is a ping":                    {in: "data\n\ndata:\n\ndata: \n\n", want: []event{ping(""), ping(""), ping("")}},
		"a type with empty data is a ping":        {in: "event: ping\ndata:\n\n", want: []event{{sse.Ping, "ping", ""}}},
		"id and retry are no data":                {in: "id: 7\nretry: 5\ndata: a\n\n", want: []event{message("a")}},
		"id alone is a ping":                      {in: "id: 7\n\nretry: 5\n\n", want: []event{ping(""), ping("")}},
		"an id with NUL, a retry with letters":    {in: "id: \x00\nretry: soon\ndata: a\n\n", want: []event{message("a")}},
		"a bare comment":                          {in: ":\n\ndata: a\n\n", want: []event{ping(""), message("a")}},
		"a comment with text":                     {in: ": OPENROUTER PROCESSING\n\n:two\n", want: []event{ping("OPENROUTER PROCESSING"), ping("two")}},
		"a comment within an event":               {in: "data: a\n: still here\ndata: b\n\n", want: []event{ping("still here"), message("a\nb")}},
		"a field that the standard does not know": {in: "error: {\"code\":500}\ndata: a\n\n", want: []event{field("error", `{"code":500}`), message("a")}},
		"field names keep their case and spaces":  {in: "Data: a\n data: b\ndata : c\n\n", want: []event{field("Data", "a"), field(" data", "b"), field("data ", "c")}},
		"an unknown name without a colon":         {in: "<html>\n", want: []event{field("<html>", "")}},
		"a byte order mark":                       {in: "\xEF\xBB\xBFdata: a\n\n", want: []event{message("a")}},
		"a byte order mark and nothing else":      {in: "\xEF\xBB\xBF"},
		"several byte order marks":                {in: "\xEF\xBB\xBF\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\n", want: []event{message("a")}},
		"a byte order mark between events":        {in: "data: a\n\n\xEF\xBB\xBFdata: b\n\n", want: []event{message("a"), message("b")}},
		"a byte order mark before a ping":         {in: "data: a\n\n\xEF\xBB\xBF: b\n\n", want: []event{message("a"), ping("b")}},
		"a byte order mark within an event":       {in: "data: a\n\xEF\xBB\xBFdata: b\n\n", want: []event{message("a\nb")}},
		"a byte order mark alone on a line":       {in: "data: a\n\n\xEF\xBB\xBF\n\ndata: b\n\n", want: []event{message("a"), message("b")}},
		"a byte order mark in the data stays":     {in: "data: \xEF\xBB\xBFa\n\n", want: []event{message("\uFEFFa")}},
		"a byte order mark behind a space stays":  {in: "data: a\n \xEF\xBB\xBFdata: b\n\n", want: []event{field(" \uFEFFdata", "b"), message("a")}},
		"half a byte order mark stays":            {in: "\xEF\xBBdata: a\n\n", want: []event{field("\xEF\xBBdata", "a")}},
		"bytes that are not UTF-8 pass":           {in: "data: \xff\n\n", want: []event{message("\xff")}},
		"NUL passes":                              {in: "data: a\x00b\n\n", want: []event{message("a\x00b")}},
		"a stream of the common kind": {
			in:   ": hi\n\ndata: {\"a\":1}\n\nevent: ping\ndata: {}\n\ndata: [DONE]\n\n",
			want: []event{ping("hi"), message(`{"a":1}`), named("ping", "{}"), message("[DONE]")},
		},

		"ends without the blank line":      {in: "data: a\n\ndata: b\n", want: []event{message("a")}, err: io.ErrUnexpectedEOF},
		"ends within a line":               {in: "data: a\n\ndat", want: []event{message("a")}, err: io.ErrUnexpectedEOF},
		"ends after a type":                {in: "event: x\n", err: io.ErrUnexpectedEOF},
		"ends after an id":                 {in: "id: 1\n", err: io.ErrUnexpectedEOF},
		"ends after half of CRLF":          {in: "data: a\r\n\r", want: []event{message("a")}},
		"ends after a comment":             {in: ":\n", want: []event{ping("")}},
		"ends within a comment":            {in: ":a", err: io.ErrUnexpectedEOF},
		"ends within the byte order mark":  {in: "\xEF\xBB", err: io.ErrUnexpectedEOF},
		"ends with a CR after the data":    {in: "data: a\r", err: io.ErrUnexpectedEOF},
		"a field line does not open event": {in: "error: a\n", want: []event{field("error", "a")}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.err == nil {
				tc.err = io.EOF
			}
			for how, wrap := range readings {
				got, err := readAll(t, wrap(strings.NewReader(tc.in)), 1<<20)
				assert.Equal(t, tc.want, got, how)
				assert.Equal(t, tc.err, err, how)
			}
		})
	}
}

// readings are the ways in which the same bytes may arrive.
var readings = map[string]func(io.Reader) io.Reader{
	"whole":               func(r io.Reader) io.Reader { return r },
	"byte by byte":        iotest.OneByteReader,
	"in halves":           iotest.HalfReader,
	"the end with data":   iotest.DataErrReader,
	"nothing in between":  func(r io.Reader) io.Reader { return &hesitant{src: r} },
	"one byte, end along": func(r io.Reader) io.Reader { return iotest.DataErrReader(iotest.OneByteReader(r)) },
}

// hesitant returns nothing, and no error, 99 times before each byte.
type hesitant struct {
	src io.Reader
	n   int
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.n++; h.n%100 != 0 {
		return 0, nil
	}
	return h.src.Read(p[:1])
}

// An event is complete with the byte that ends it. A reader that waits for
// more, for the LF that may follow a CR say, holds back each event until the
// next one comes.
func TestNextDoesNotReadOn(t *testing.T) {
	for name, in := range map[string]string{
		"LF":                    "data: a\n\n",
		"CRLF":                  "data: a\r\n\r\n",
		"CR":                    "data: a\r\r",
		"CRLF without the last": "data: a\r\n\r",
		"a comment":             ": a\n",
		"a comment, CR":         ": a\r",
		"a field":               "error: a\r",
		"after a mark":          "\xEF\xBB\xBFdata: a\r\r",
	} {
		t.Run(name, func(t *testing.T) {
			for how, wrap := range readings {
				if strings.Contains(how, "end") {
					continue // these read on by themselves
				}
				tooFar := errors.New("read after the event was complete")
				src := io.MultiReader(strings.NewReader(in), iotest.ErrReader(tooFar))
				ev, err := sse.NewReader(wrap(src), 100).Next()
				require.NoError(t, err, how)
				assert.Equal(t, "a", string(ev.Data), how)
			}
		})
	}
}

func TestNextErrors(t *testing.T) {
	reset := errors.New("connection reset")

	t.Run("the source's error comes after what arrived with it", func(t *testing.T) {
		src := iotest.DataErrReader(io.MultiReader(
			strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(reset)))
		got, err := readAll(t, src, 100)
		assert.Equal(t, []event{message("a")}, got)
		assert.Equal(t, reset, err)
	})
	t.Run("the source is not read again after its end", func(t *testing.T) {
		ends := 0
		r := sse.NewReader(readFunc(func([]byte) (int, error) { ends++; return 0, io.EOF }), 100)
		for range 3 {
			_, err := r.Next()
			require.Equal(t, io.EOF, err)
		}
		assert.Equal(t, 1, ends)
	})
	t.Run("nothing for ever", func(t *testing.T) {
		reads := 0
		got, err := readAll(t, readFunc(func([]byte) (int, error) { reads++; return 0, nil }), 100)
		assert.Empty(t, got)
		assert.Equal(t, io.ErrNoProgress, err)
		assert.Equal(t, 100, reads)
	})
	for name, n := range map[string]int{"a negative count": -1, "a count beyond the buffer": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			got, err := readAll(t, readFunc(func([]byte) (int, error) { return n, nil }), 100)
			assert.Empty(t, got)
			assert.ErrorContains(t, err, "impossible count")
		})
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// Data stays in place while comments within the event are reported, and is
// overwritten only by the next call.
func TestDataIsValidUntilNext(t *testing.T) {
	long := strings.Repeat("x", 5000)
	in := "data: " + long + "\n" + strings.Repeat(": "+long+"\n", 20) + "data: y\n\ndata: z\n\n"
	r := sse.NewReader(iotest.HalfReader(strings.NewReader(in)), 1<<20)
	for range 20 {
		ev, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, sse.Ping, ev.Kind)
		require.Equal(t, long, string(ev.Data))
	}
	ev, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, long+"\ny", string(ev.Data))

	// A caller that appends to the data must not reach what comes after it.
	_ = append(ev.Data, bytes.Repeat([]byte("!"), 100)...)
	ev, err = r.Next()
	require.NoError(t, err)
	require.Equal(t, "z", string(ev.Data))
}

// A buffer that was once large, and lines that all end with CR: a search for
// the LF that is not there must not read the whole buffer for every line.
func TestManyShortLinesInALargeBuffer(t *testing.T) {
	const size = 2 << 20
	in := "data: " + strings.Repeat("x", size) + "\r\r" + strings.Repeat(":\r", size/2)
	start := time.Now()
	r := sse.NewReader(strings.NewReader(in), 2*size)
	for n := 0; ; n++ {
		_, err := r.Next()
		if err == io.EOF {
			require.Equal(t, 1+size/2, n)
			break
		}
		require.NoError(t, err)
	}
	// Linear: a fraction of a second, also under the race detector. Quadratic:
	// minutes.
	assert.Less(t, time.Since(start), 20*time.Second)
}

// What has been read ahead is not counted: the offset is where the event that
// was returned ends.
func TestOffset(t *testing.T) {
	events := []string{"data: a\n\n", ": ping\n", "\ndata: b\r\n\r\n", "event: x\ndata: c\n\n"}
	for _, size := range []int{1, 3, 1000} {
		r := sse.NewReader(&chunked{strings.Join(events, "") + "data: rest", size}, 100)
		var want int64
		for i, text := range events {
			_, err := r.Next()
			require.NoError(t, err)
			want += int64(len(text))
			got := r.Offset()
			if i == 2 {
				want-- // the LF of the last CRLF is not waited for
				require.Equal(t, want, got)
				want++
				continue
			}
			require.Equal(t, want, got, "after %q, read by %d", text, size)
		}
	}
}

type chunked struct {
	rest string
	size int
}

func (c *chunked) Read(p []byte) (int, error) {
	if c.rest == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.size)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func TestClose(t *testing.T) {
	for range 100 {
		r := sse.NewReader(strings.NewReader("data: a\n\ndata: b\n\n"), 100)
		_, err := r.Next()
		require.NoError(t, err)
		at := r.Offset()
		r.Close()
		require.Equal(t, at, r.Offset())
		_, err = r.Next()
		require.ErrorIs(t, err, io.ErrClosedPipe)
		r.Close()
	}
}

func TestRest(t *testing.T) {
	for in, want := range map[string]string{
		"data: a\n\ndata: b":                "b",
		"data: a\n\n\xEF\xBB\xBFdata: b":    "b",
		"data: a\ndata: b":                  "a\nb",
		"data: a\n\xEF\xBB\xBFdata: b":      "a\nb",
		"data: a\n\n{\"error\":1}":          `{"error":1}`,
		"\xEF\xBB\xBF\xEF\xBB\xBF{\"a\":1}": `{"a":1}`,
		"data: a\n: b":                      "a",
	} {
		r := sse.NewReader(strings.NewReader(in), 100)
		_, err := drain(t, r)
		require.Equal(t, io.ErrUnexpectedEOF, err, "%q", in)
		assert.Equal(t, want, string(r.Rest()), "%q", in)
	}
}

func TestSplit(t *testing.T) {
	whole := func(data []byte) bool { return string(data) == "[DONE]" || json.Valid(data) }
	for name, tc := range map[string]struct {
		in   string
		want []event
		rest string
	}{
		"only a line end between events": {
			in: "data: {}\ndata: {\"a\":1}\ndata: [DONE]\n", want: []event{message("{}"), message(`{"a":1}`)}, rest: "[DONE]",
		},
		"CRLF":                      {in: "data: {}\r\ndata: 1\r\n\r\n", want: []event{message("{}"), message("1")}},
		"CR":                        {in: "data: {}\rdata: 1\r\r", want: []event{message("{}"), message("1")}},
		"one value in many lines":   {in: "data: {\ndata: \"a\":\ndata: 1}\n\n", want: []event{message("{\n\"a\":\n1}")}},
		"by the rules":              {in: "data: {}\n\ndata: 1\n\n", want: []event{message("{}"), message("1")}},
		"a type after the data":     {in: "data: {}\nevent: x\n\ndata: 1\n\n", want: []event{named("x", "{}"), message("1")}},
		"a comment between":         {in: "data: {}\n: still here\ndata: 1\n\n", want: []event{ping("still here"), message("{}"), message("1")}},
		"text is no value":          {in: "data: a\ndata: b\n\n", want: []event{message("a\nb")}},
		"nor is nothing":            {in: "data:\ndata: 1\n\n", want: []event{message("\n1")}},
		"a byte order mark between": {in: "data: {}\n\xEF\xBB\xBFdata: 1\n\n", want: []event{message("{}"), message("1")}},
		"not after a line of a few": {in: "data: [\ndata: ]\ndata: 1\n\n", want: []event{message("[\n]\n1")}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(tc.in), iotest.OneByteReader(strings.NewReader(tc.in))} {
				r := sse.NewReader(src, 100)
				r.Split(whole)
				all, err := drain(t, r)
				assert.Equal(t, tc.want, all)
				if tc.rest == "" {
					assert.Equal(t, io.EOF, err)
				} else {
					assert.Equal(t, io.ErrUnexpectedEOF, err)
					assert.Equal(t, tc.rest, string(r.Rest()))
				}
				assert.EqualValues(t, len(tc.in), r.Offset())
			}
		})
	}
}
