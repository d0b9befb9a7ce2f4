package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
)

// A Kind is the kind of an Event.
type Kind uint8

const (
	// Message is an event with data.
	Message Kind = iota
	// Ping is a comment, or an event without data.
	Ping
	// Field is a line whose field name the standard does not know.
	Field
)

// An Event is an event, a comment or an unknown field of the stream.
type Event struct {
	Kind Kind

	// Type is the event's type, as given by its event field, or the name of
	// the field for an event of kind Field. Mostly empty.
	Type string

	// Within is set for a comment that stands between the lines of an event.
	Within bool

	// Data is the event's data, the comment's text, or the field's value. It
	// is valid until the next call of Next.
	Data []byte
}

// A TooLargeError says that an event was longer than allowed.
type TooLargeError struct {
	Limit int // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("sse: event is larger than %d bytes", e.Limit)
}

var errBadRead = errors.New("sse: the reader below returned an impossible count")

const (
	// firstRead is the size of the buffer until an event needs more, and how
	// far it may grow beyond the limit. Most pieces of a model's answer are
	// far below it.
	firstRead = 4 << 10

	// emptyReads is how often in a row a source may return nothing at all.
	emptyReads = 100
)

// A Reader reads events from a stream. It is not safe for concurrent use.
type Reader struct {
	src   io.Reader
	limit int

	// One buffer holds the data of the event under construction, then a gap, then
	// the bytes that have not been read yet. Data moves down over the names and line
	// ends before it, so that an event of one line is never copied and one of many
	// lines needs no second buffer.
	buf                []byte
	dataStart, dataEnd int
	start, end         int
	scanned            int   // bytes of buf[start:end] known to hold no line end
	total              int64 // bytes read from src
	err                error // what src ended with

	begun  bool // the first bytes have been looked at for a byte order mark
	skipLF bool // the last line ended with CR: an LF now belongs to it

	typ     string // the event under construction
	size    int    // its lines so far
	hasData bool
	one     bool // its data is one line so far
	open    bool // it has a field that the standard knows

	whole func(data []byte) bool
}

// NewReader returns a Reader of src in which no event is larger than limit
// bytes, counting its lines without their ends. A limit of zero or less sets
// none.
func NewReader(src io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = math.MaxInt - firstRead
	}
	return &Reader{src: src, limit: min(limit, math.MaxInt-firstRead)}
}

// Split makes the Reader accept events that are separated by a single line end,
// against the standard: if whole reports that the first line of data is an event by
// itself, a second line of data begins another event. Call it before the first Next.
func (r *Reader) Split(whole func(data []byte) bool) { r.whole = whole }

// Next returns the next event. It blocks as long as src does. At the end it
// returns io.EOF, or io.ErrUnexpectedEOF if the stream ended within an event, or
// the error of src, or a *TooLargeError. Later calls return the same error.
func (r *Reader) Next() (Event, error) {
	if !r.hasData {
		r.dataStart, r.dataEnd = 0, 0 // the last event's, given back by this call
	}
	for {
		line, err := r.line()
		if err != nil {
			if err == io.EOF && (r.end > r.start || r.open) {
				err = io.ErrUnexpectedEOF
			}
			return Event{}, err
		}
		if ev, ok := r.take(line); ok {
			return ev, nil
		}
	}
}

// Close gives the reader's memory back, after which events are no longer valid. It
// does not close src. A Reader that is not closed leaks nothing.
func (r *Reader) Close() {
	if buf := r.buf; len(buf) == firstRead {
		firstBuffers.Put(&buf)
	}
	*r = Reader{src: r.src, limit: r.limit, total: r.Offset(), err: io.ErrClosedPipe, whole: r.whole}
}

var firstBuffers = sync.Pool{New: func() any { b := make([]byte, firstRead); return &b }}

// Offset returns how many bytes of src make up the lines that have been taken
// so far. After Next has returned an event, that is where it ends.
func (r *Reader) Offset() int64 { return r.total - int64(r.end-r.start) }

// Rest returns the data of the unfinished event at the end of the stream, or a last
// line that is not in the standard's form. It is valid after Next has returned
// io.ErrUnexpectedEOF.
func (r *Reader) Rest() []byte {
	data := append([]byte(nil), r.buf[r.dataStart:r.dataEnd]...)
	line := unmarked(r.buf[r.start:r.end])
	name, value, colon := bytes.Cut(line, []byte{':'})
	switch {
	case colon && string(name) == "data":
		if r.hasData {
			data = append(data, '\n')
		}
		data = append(data, bytes.TrimPrefix(value, []byte{' '})...)
	case !r.hasData:
		data = append(data, line...)
	}
	return data
}

// take adds a line to the event under construction, and returns the event to report,
// if any.
func (r *Reader) take(line []byte) (Event, bool) {
	line = unmarked(line)
	if len(line) == 0 {
		return r.dispatch()
	}
	name, value, colon := bytes.Cut(line, []byte{':'})
	if colon && len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	if colon && len(name) == 0 {
		return Event{Kind: Ping, Within: r.open, Data: value}, true
	}
	switch string(name) {
	case "data":
		if r.one && r.whole != nil && r.whole(r.buf[r.dataStart:r.dataEnd]) {
			r.start, r.skipLF = r.lineStart(line), false // the line is read again, as the next event's
			return r.dispatch()
		}
		r.addData(line, len(value))
	case "event":
		r.typ = string(value)
	case "id", "retry":
		// They steer reconnection, and an answer cannot be resumed.
	default:
		return Event{Kind: Field, Type: string(name), Data: value}, true
	}
	r.open = true
	r.size += len(line)
	return Event{}, false
}

// addData appends the last n bytes of a line that was just read. It fits: the
// line's name and the end of the line before it take more room than the LF.
func (r *Reader) addData(line []byte, n int) {
	at := r.lineStart(line) + len(line) - n
	r.one = !r.hasData
	if !r.hasData {
		r.hasData = true
		r.dataStart, r.dataEnd = at, at+n
		return
	}
	r.buf[r.dataEnd] = '\n'
	r.dataEnd += 1 + copy(r.buf[r.dataEnd+1:], r.buf[at:at+n])
}

// lineStart returns where in buf the line that was just read begins: its end
// is one byte long, and an LF after a CR is not taken yet.
func (r *Reader) lineStart(line []byte) int { return r.start - 1 - len(line) }

func (r *Reader) dispatch() (Event, bool) {
	ev := Event{Type: r.typ, Data: r.buf[r.dataStart:r.dataEnd:r.dataEnd]}
	open := r.open
	r.typ, r.size, r.hasData, r.one, r.open = "", 0, false, false, false
	if len(ev.Data) == 0 {
		ev.Kind, ev.Data = Ping, nil
	}
	return ev, open
}

// line returns the next line without its end. It is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	for {
		if r.skipLF && r.start < r.end {
			if r.buf[r.start] == '\n' {
				r.start++
			}
			r.skipLF = false
		}
		if r.begun || r.mark() {
			i := lineEnd(r.buf[r.start+r.scanned : r.end])
			n := r.scanned + i
			if i < 0 {
				n = r.end - r.start
			}
			if n > r.limit-r.size {
				r.err = &TooLargeError{Limit: r.limit}
				r.start, r.end, r.scanned = 0, 0, 0
				return nil, r.err
			}
			if i >= 0 {
				line := r.buf[r.start : r.start+n]
				r.skipLF = r.buf[r.start+n] == '\r'
				r.start, r.scanned = r.start+n+1, 0
				return line, nil
			}
			r.scanned = n
		}
		if r.err != nil {
			return nil, r.err
		}
		r.fill()
	}
}

const bom = "\xEF\xBB\xBF"

// unmarked returns a line without the byte order marks before it.
func unmarked(line []byte) []byte {
	for len(line) >= len(bom) && string(line[:len(bom)]) == bom {
		line = line[len(bom):]
	}
	return line
}

// mark drops a byte order mark and reports whether enough has arrived to tell.
func (r *Reader) mark() bool {
	head := r.buf[r.start:r.end]
	if len(head) < len(bom) && r.err == nil && string(head) == bom[:len(head)] {
		return false
	}
	if bytes.HasPrefix(head, []byte(bom)) {
		r.start += len(bom)
	}
	r.begun = true
	return true
}

// fill reads more of src, or notes how it ended.
func (r *Reader) fill() {
	if r.start == r.end || r.end == len(r.buf) {
		r.compact()
	}
	if r.buf == nil {
		r.buf = *firstBuffers.Get().(*[]byte)
	}
	if r.end == len(r.buf) {
		// Doubling, but never far above what an event may have.
		size := min(max(firstRead, 2*len(r.buf)), r.limit+firstRead)
		buf := make([]byte, size)
		copy(buf, r.buf[:r.end])
		r.buf = buf
	}
	for range emptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		if n < 0 || n > len(r.buf)-r.end {
			r.err = errBadRead
			return
		}
		r.end += n
		r.total += int64(n)
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// compact moves what is still needed to the front of the buffer.
func (r *Reader) compact() {
	if !r.hasData {
		r.dataStart, r.dataEnd = 0, 0
	} else if r.dataStart > 0 {
		r.dataStart, r.dataEnd = 0, copy(r.buf, r.buf[r.dataStart:r.dataEnd])
	}
	if r.start > r.dataEnd {
		r.start, r.end = r.dataEnd, r.dataEnd+copy(r.buf[r.dataEnd:], r.buf[r.start:r.end])
	}
}

// lineEnd returns the index of the first CR or LF, or -1. It looks for both in
// short steps: where all lines end with CR, each search for an LF would read
// the whole buffer.
func lineEnd(b []byte) int {
	const step = 512
	for at := 0; at < len(b); at += step {
		part := b[at:min(at+step, len(b))]
		lf := bytes.IndexByte(part, '\n')
		if lf >= 0 {
			part = part[:lf]
		}
		if cr := bytes.IndexByte(part, '\r'); cr >= 0 {
			return at + cr
		}
		if lf >= 0 {
			return at + lf
		}
	}
	return -1
}
