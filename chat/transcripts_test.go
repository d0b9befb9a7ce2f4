package chat_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/neverhang/neverhang/chat"
	"github.com/neverhang/neverhang/internal/sse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// transcript is what a stream says, as the golden files hold it.
type transcript struct {
	End     string `json:"end"` // the reader's error
	Chunks  int    `json:"chunks"`
	Outputs int    `json:"outputs"` // chunks with something the model wrote
	Pings   int    `json:"pings,omitempty"`
	Done    bool   `json:"done"`
	Empty   bool   `json:"empty,omitempty"`

	ID           string            `json:"id,omitempty"`
	Model        string            `json:"model,omitempty"`
	Created      int64             `json:"created,omitempty"`
	Fingerprint  string            `json:"system_fingerprint,omitempty"`
	Tier         string            `json:"service_tier,omitempty"`
	Content      string            `json:"content"`
	Reasoning    string            `json:"reasoning,omitempty"`
	ReasoningKey string            `json:"reasoning_key,omitempty"`
	Refusal      string            `json:"refusal,omitempty"`
	ToolCalls    []chat.ToolCall   `json:"tool_calls,omitempty"`
	FinishReason chat.FinishReason `json:"finish_reason,omitempty"`
	Usage        *chat.Usage       `json:"usage,omitempty"`
	Extra        raws              `json:"extra,omitempty"`
	ChoiceExtra  raws              `json:"choice_extra,omitempty"`

	Error *chat.ServerError `json:"error,omitempty"`

	// SentBack is the answer as a later request has it, WithTools as one that
	// offers tools does if that differs.
	SentBack  json.RawMessage `json:"sent_back"`
	WithTools json.RawMessage `json:"sent_back_with_tools,omitempty"`
}

// read reads a stream as a client does.
func read(t *testing.T, src io.Reader) transcript {
	t.Helper()
	var got transcript
	var a chat.Assembler
	var ch chat.Chunk
	r := sse.NewReader(src, 1<<20)
	for {
		ev, err := r.Next()
		switch {
		case err != nil:
			got.End = err.Error()
		case ev.Kind == sse.Ping:
			got.Pings++
		case ev.Kind == sse.Field:
			require.Equal(t, "error", ev.Type)
			got.Error = chat.ParseError(ev.Data)
		case string(ev.Data) == "[DONE]":
			got.Done = true
		default:
			require.NoError(t, ch.UnmarshalJSON(ev.Data), "%s", ev.Data)
			got.Chunks++
			if ch.Output() && !ch.Whole {
				got.Outputs++
			}
			if ch.Error != nil {
				require.Nil(t, got.Error)
				got.Error = ch.Error
			}
			a.Add(&ch)
		}
		if err != nil {
			break
		}
	}

	resp := a.Response()
	m := &resp.Message
	got.Empty = resp.Empty()
	got.ID, got.Model, got.Fingerprint, got.Tier = resp.ID, resp.Model, resp.SystemFingerprint, resp.ServiceTier
	if !resp.Created.IsZero() {
		got.Created = resp.Created.Unix()
	}
	got.Content, got.Reasoning, got.ReasoningKey, got.Refusal = m.Content, m.Reasoning, m.ReasoningKey, m.Refusal
	got.ToolCalls, got.FinishReason, got.Usage = m.ToolCalls, resp.FinishReason, resp.Usage
	got.Extra, got.ChoiceExtra = resp.Extra, resp.ChoiceExtra
	var err error
	got.SentBack, err = m.AppendJSON(nil)
	require.NoError(t, err)
	form := chat.Form{Tools: true}
	with, err := form.AppendMessage(nil, m)
	require.NoError(t, err)
	if !bytes.Equal(with, got.SentBack) {
		got.WithTools = with
	}
	return got
}

// Each stream in testdata is one that the server of its name might send, with
// that server's own ways. What it comes to is in the file beside it.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/streams/*.sse")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".sse"), func(t *testing.T) {
			stream, err := os.ReadFile(file)
			require.NoError(t, err)
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			require.NoError(t, enc.Encode(read(t, bytes.NewReader(stream))))

			golden := strings.TrimSuffix(file, ".sse") + ".json"
			if *update {
				require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())

			// However it arrives, it says the same.
			whole := read(t, bytes.NewReader(stream))
			assert.Equal(t, whole, read(t, iotest.OneByteReader(bytes.NewReader(stream))))
			for _, end := range []string{"\n", "\r\n", "\r"} {
				text := strings.ReplaceAll(string(stream), "\r\n", "\n")
				text = strings.ReplaceAll(text, "\n", end)
				assert.Equal(t, whole, read(t, iotest.HalfReader(strings.NewReader(text))), "%q", end)
			}
		})
	}
}
