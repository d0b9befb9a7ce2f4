package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const small = `{
  "info": {"id":"ses_1","slug":"quiet-lake","title":"Fix the \u001b[31madder","version":"1.18.33",
    "time":{"created":1796005609320,"updated":1796005616060},"model":{"id":"m","providerID":"p"},"cost":0.5},
  "messages": [
    {"info":{"id":"msg_0","role":"user","time":{"created":1796005610857},"agent":"build","model":{"providerID":"p","modelID":"m-1"}},
     "parts":[
       {"type":"text","text":"Please fix calc.add, it subtracts."},
       {"type":"text","text":"Called the Read tool","synthetic":true},
       {"type":"file","mime":"text/plain","filename":"calc.py","url":"data:text/plain;base64,AAAA"},
       {"type":"agent","name":"gitter","source":{}}]},
    {"info":{"id":"msg_1","role":"assistant","time":{"created":1796005611000},"mode":"build","modelID":"m-1",
      "error":{"name":"MessageAbortedError","data":{"message":"The operation was aborted."}}},
     "parts":[]},
    {"info":{"id":"msg_2","role":"assistant","time":{"created":1796005612000},"modelID":"m-1","finish":"tool-calls"},
     "parts":[
       {"type":"step-start","snapshot":"x"},
       {"type":"reasoning","text":"","metadata":{"p":{"reasoningEncryptedContent":"zzz"}}},
       {"type":"tool","callID":"c1","tool":"read","state":{"status":"completed","input":{"path":"calc.py"},"output":"def add(a, b):\u0000 return a - b","title":"calc.py","time":{"start":1,"end":2}}},
       {"type":"tool","callID":"c2","tool":"glob","state":{"status":"error","input":{"pattern":"**"},"error":"no such folder"}},
       {"type":"tool","callID":"c3","tool":"bash","state":{"status":"running","input":{"command":"pytest"},"time":{"start":3}}},
       {"type":"patch","hash":"h","files":["calc.py","test.py"]},
       {"type":"compaction","auto":true},
       {"type":"hologram","depth":3},
       {"type":"step-finish","reason":"stop","cost":0}]},
    {"info":{"id":"msg_3","role":"user","time":{"created":"soon"}},"parts":[{"type":"text","text":"go on"}]},
    {"info":{"id":"msg_4","role":"assistant","error":{"name":"APIError","data":{"message":"Invalid model","statusCode":404}}},"parts":[]},
    {"info":7,"parts":[3]}
  ]
}`

func TestSessionOfEveryState(t *testing.T) {
	s, err := parseSession("s.json", []byte(small))
	require.NoError(t, err)
	assert.Equal(t, "Fix the [31madder", s.Title, "control characters are dropped")
	assert.Equal(t, "ses_1", s.ID)
	assert.Equal(t, time.UnixMilli(1796005609320).UTC(), s.Created)
	require.Len(t, s.Messages, 6)

	user := s.Messages[0]
	assert.Equal(t, "user", user.Role)
	assert.Equal(t, "m-1", user.Model)
	assert.Equal(t, "Please fix calc.add, it subtracts.", user.said(), "injected text is nobody's word")
	assert.Equal(t, strings.Join([]string{
		"Please fix calc.add, it subtracts.",
		"Put in by the harness:\n~~~\nCalled the Read tool\n~~~",
		"Attached: calc.py (text/plain)",
		"Note: handed to the agent gitter",
	}, "\n\n"), user.text())

	assert.Equal(t, "Note: the message ended early: MessageAbortedError: The operation was aborted.", s.Messages[1].text())
	assert.Equal(t, strings.Join([]string{
		"Tool read, completed: calc.py\nInput:\n~~~\n{\"path\":\"calc.py\"}\n~~~\nResult:\n~~~\ndef add(a, b): return a - b\n~~~",
		"Tool glob, error\nInput:\n~~~\n{\"pattern\":\"**\"}\n~~~\nResult:\n~~~\nno such folder\n~~~",
		"Tool bash, running\nInput:\n~~~\n{\"command\":\"pytest\"}\n~~~\nNo result: it had not ended when the session was exported.",
		"Note: files changed: calc.py, test.py",
		"Note: the conversation so far was summed up here",
		"Note: a part of unknown type \"hologram\"",
	}, "\n\n"), s.Messages[2].text())
	assert.Equal(t, "go on", s.Messages[3].text(), "a time of a strange type costs the time only")
	assert.True(t, s.Messages[3].Created.IsZero())
	assert.Equal(t, "Note: the message ended early: APIError: Invalid model", s.Messages[4].text())
	assert.Equal(t, "unknown", s.Messages[5].Role)
	assert.Equal(t, "Note: this message could not be read\n\nNote: a part that could not be read", s.Messages[5].text())
}

func TestSessionMayBePackedOrHavePrefix(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(small))
	require.NoError(t, z.Close())
	for name, data := range map[string][]byte{
		"packed":                 packed.Bytes(),
		"byte order mark":        []byte("\ufeff" + small),
		"the exporter's message": []byte("Exporting session: ses_1\n" + small + "\n\n"),
	} {
		s, err := parseSession("s", data)
		if assert.NoError(t, err, name) {
			assert.Len(t, s.Messages, 6, name)
		}
	}
}

func TestFileThatIsNoSession(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"cut by a pipe":       {small[:700], "ends in the middle of its JSON, after 700 bytes: the export was cut short"},
		"empty":               {"", "s.json is empty"},
		"only space":          {" \n\t\n", "s.json is empty"},
		"text":                {"hello", "is not JSON (invalid character 'h'"},
		"HTML":                {"<html></html>", "is not JSON (invalid character '<'"},
		"a list":              {"[1,2]", "is JSON but no opencode export"},
		"null":                {"null", "is JSON but no opencode export"},
		"another object":      {`{"info":{}}`, "is JSON but no opencode export"},
		"messages of no list": {`{"info":{},"messages":{}}`, "is JSON but no opencode export"},
		"no messages":         {`{"info":{},"messages":[]}`, "has no messages"},
		"Claude Code":         {"{\"type\":\"user\",\"sessionId\":\"x\"}\n{\"type\":\"assistant\"}\n", "one JSON value a line (a Claude Code session, it seems)"},
		"Codex":               {"{\"type\":\"session_meta\",\"payload\":{}}\n{}\n", "one JSON value a line (a Codex session, it seems)"},
		"events of a run":     {"{\"type\":\"text\",\"sessionID\":\"x\",\"part\":{}}\n{}\n", "one JSON value a line (events of an opencode run, it seems)"},
		"a database":          {"SQLite format 3\x00\x10\x00", "is a database"},
		"broken compression":  {"\x1f\x8bxx", "unpacking s.json"},
	} {
		_, err := parseSession("s.json", []byte(c.data))
		if assert.Error(t, err, name) {
			assert.Contains(t, err.Error(), c.want, name)
			assert.NotContains(t, err.Error(), "\n", name)
		}
	}
}

func TestSessionPathThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	_, err := readSession(dir)
	assert.ErrorContains(t, err, "is a directory, want one session file; make one with: opencode export")
	_, err = readSession(filepath.Join(dir, "none.json"))
	assert.ErrorIs(t, err, os.ErrNotExist)

	file := filepath.Join(dir, "s.json")
	require.NoError(t, os.WriteFile(file, []byte(small), 0o644))
	s, err := readSession(file)
	require.NoError(t, err)
	assert.Len(t, s.Messages, 6)
}

func TestEmbeddedSessionYields45Articles(t *testing.T) {
	s, err := readSession("")
	require.NoError(t, err)
	assert.Len(t, s.Messages, 48)
	assert.Equal(t, "Rename terminology in README.md for dark-factory core concepts", s.Title)
	assert.Len(t, planArticles(s, 0), 45)
}

// FuzzSession looks for files that bring the reader down.
func FuzzSession(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(small[:300]))
	f.Add([]byte(`{"info":{},"messages":[null,1,{"info":null,"parts":[null,{"type":"tool","state":[]}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseSession("s", data)
		if err != nil {
			return
		}
		next := 0
		for _, a := range planArticles(s, 0) {
			if a.First != next || a.Last < a.First {
				t.Fatalf("article %+v, want it to begin at %d", a, next)
			}
			next = a.Last + 1
		}
		if next != 0 && next != len(s.Messages) {
			t.Fatalf("articles end at %d of %d messages", next, len(s.Messages))
		}
	})
}
