package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// embedded is the session used when none is named. See data/LICENSE.md.
//
//go:embed data/hidden-river.json.gz
var embedded []byte

// maxSession bounds what is read of a session file, unpacked.
const maxSession = 512 << 20

// howToExport ends every error about a file that is no session.
const howToExport = "make one with: opencode export SESSION > session.json"

// A session is a recorded conversation between a user and a coding agent.
type session struct {
	ID       string
	Title    string
	Version  string // of the program that recorded it
	Created  time.Time
	Messages []message
}

// readSession reads the opencode export at path, or the embedded one if path
// is empty. A compressed file is unpacked.
func readSession(path string) (*session, error) {
	if path == "" {
		return parseSession("the embedded session", embedded)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, want one session file; %s", path, howToExport)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSession+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(data) > maxSession {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxSession)
	}
	return parseSession(path, data)
}

// parseSession decodes an export. name stands for it in errors.
func parseSession(name string, data []byte) (*session, error) {
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		var err error
		if data, err = unpack(data); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", name, err)
		}
	}
	data = trimExport(data)
	value, err := onlyValue(data)
	if err != nil {
		return nil, fmt.Errorf("%s %w; %s", name, err, howToExport)
	}
	var export struct {
		Info     json.RawMessage   `json:"info"`
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(value, &export); err != nil || export.Info == nil || export.Messages == nil {
		return nil, fmt.Errorf(`%s is JSON but no opencode export: want an object with "info" and "messages"; %s`,
			name, howToExport)
	}

	var info struct {
		ID, Slug, Title, Version string
		Time                     struct{ Created float64 }
	}
	// A field of an unforeseen type leaves the others as they are.
	_ = json.Unmarshal(export.Info, &info)
	s := &session{ID: clean(info.ID), Title: oneLine(clean(info.Title), 200), Version: clean(info.Version), Created: millis(info.Time.Created)}
	if s.Title == "" {
		s.Title = firstOf(info.Slug, info.ID, "Untitled session")
	}
	for i, raw := range export.Messages {
		s.Messages = append(s.Messages, parseMessage(i, raw))
	}
	if len(s.Messages) == 0 {
		return nil, fmt.Errorf("%s has no messages: nothing to write about", name)
	}
	return s, nil
}

func unpack(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(z, maxSession+1))
	if err == nil && len(out) > maxSession {
		err = fmt.Errorf("more than %d bytes", maxSession)
	}
	return out, err
}

// trimExport drops what a shell or an editor puts before the JSON: a byte
// order mark, and the line that opencode prints while it exports.
func trimExport(data []byte) []byte {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	if bytes.HasPrefix(data, []byte("Exporting session")) {
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return bytes.TrimSpace(data)
}

// onlyValue returns data if it is exactly one JSON value. The error says what
// it is instead, to follow the file's name.
func onlyValue(data []byte) (json.RawMessage, error) {
	if len(data) == 0 {
		return nil, errors.New("is empty")
	}
	if bytes.HasPrefix(data, []byte("SQLite format 3\x00")) {
		return nil, errors.New("is a database, not a session exported from it")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	var first json.RawMessage
	switch err := dec.Decode(&first); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("ends in the middle of its JSON, after %d bytes: the export was cut short "+
			"(into a pipe it stops at 64 KiB, into a file it does not)", len(data))
	case err != nil:
		return nil, fmt.Errorf("is not JSON (%w)", err)
	case len(bytes.TrimSpace(data[dec.InputOffset():])) > 0:
		return nil, fmt.Errorf("holds one JSON value a line%s, want one opencode export", lineKind(first))
	}
	return first, nil
}

// lineKind guesses from its first line who wrote a file of JSON lines.
func lineKind(first json.RawMessage) string {
	var keys map[string]json.RawMessage
	if json.Unmarshal(first, &keys) != nil {
		return ""
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := keys[name]; !ok {
				return false
			}
		}
		return true
	}
	switch {
	case has("type", "payload"):
		return " (a Codex session, it seems)"
	case has("type", "sessionID", "part"):
		return " (events of an opencode run, it seems)"
	case has("type", "sessionId"), has("type", "messageId"), has("type", "leafUuid"):
		return " (a Claude Code session, it seems)"
	}
	return ""
}

// millis turns Unix milliseconds into a time; zero, negative and absurd ones
// give the zero time.
func millis(ms float64) time.Time {
	if ms <= 0 || ms > 253402300799000 { // the end of the year 9999
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

func firstOf(s ...string) string {
	for _, s := range s {
		if s != "" {
			return s
		}
	}
	return ""
}
