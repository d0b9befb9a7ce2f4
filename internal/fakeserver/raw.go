package fakeserver

import (
	"strconv"
	"time"
)

// Chunk sends an event with the data given, valid or not. In a plain answer
// it is the body.
func Chunk(data string) Step {
	return Step{"chunk(" + short(data) + ")", func(t *turn) error {
		if t.plain {
			return t.write1(typeJSON, data)
		}
		return t.event("data: " + data + "\n\n")
	}}
}

// Event sends an event with a name. Plain answers have none.
func Event(name, data string) Step {
	return Step{"event(" + name + " " + short(data) + ")", func(t *turn) error {
		if t.plain {
			return nil
		}
		return t.event("event: " + name + "\ndata: " + data + "\n\n")
	}}
}

// Comment sends a comment and an empty line: what servers send to keep a
// connection alive. Empty text sends a bare colon. Plain answers have none.
func Comment(text string) Step {
	line := ":"
	if text != "" {
		line = ": " + text
	}
	return Step{"comment(" + text + ")", func(t *turn) error {
		if t.plain {
			return nil
		}
		return t.event(line + "\n\n")
	}}
}

// Ping is the comment most servers send to keep a connection alive. See
// [PingForms] for the others.
func Ping() Step { return Step{"ping", Comment("ping").run} }

// PingForms returns the forms in which servers keep a connection alive.
func PingForms() []Step {
	return []Step{
		Ping(),
		Comment(""),
		Comment("keep-alive"),
		Comment("OPENROUTER PROCESSING"),
		Event("ping", `{"type":"ping"}`),
	}
}

// Pings sends nothing but pings, for ever.
func Pings(every time.Duration) Step {
	return Step{"pings(" + every.String() + ")", Repeat(-1, every, Ping()).run}
}

// Raw sends bytes as they are, after the headers.
func Raw(body string) Step {
	return Step{"raw(" + short(body) + ")", func(t *turn) error {
		kind := typeStream
		if t.plain {
			kind = typeJSON
		}
		return t.write1(kind, body)
	}}
}

func (t *turn) write1(kind, body string) error {
	if err := t.begin(kind); err != nil {
		return err
	}
	return t.write([]byte(body))
}

// CRLF ends the lines of all events that follow with CR LF.
func CRLF() Step {
	return Step{"crlf", func(t *turn) error {
		t.crlf = true
		return nil
	}}
}

// Split cuts up all that this reply writes from here on: into pieces of n
// bytes, or with a negative n of 1 to -n bytes at random, following the
// server's seed. In memory the client also reads no more at once; a kernel
// may join pieces. 0 ends it.
func Split(n int) Step {
	return Step{"split(" + strconv.Itoa(n) + ")", func(t *turn) error {
		t.piece = n
		t.conn.small(n, t.rng)
		return nil
	}}
}
