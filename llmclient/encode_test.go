package llmclient

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
)

// wants is what a request must be on the wire, whatever is kept.
func wants(t *testing.T, e *encoded, req *chat.Request) {
	t.Helper()
	want, err := req.AppendJSON(nil, true, true)
	require.NoError(t, err)
	got, err := e.payload(req, chat.Form{}, "", true, true)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got.joined()))
	require.Equal(t, len(want), got.size)
}

func long(text string) string { return text + strings.Repeat(" and so on", 50) }

func TestWhatIsKeptOfAConversationIsWhatWouldBeWritten(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	e := newEncoded()
	req := &chat.Request{Model: "m", Messages: []chat.Message{chat.System(long("rules"))}}
	for i := range 200 {
		switch r.IntN(5) {
		case 0:
			req.Messages = append(req.Messages, chat.User("short"))
		case 1:
			req.Messages = append(req.Messages, chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{
				{ID: fmt.Sprint("c", i), Name: "write", Arguments: fmt.Sprintf(`{"text":%q}`, long("\"quoted\""))}}})
		case 2: // one of the old ones is edited
			m := &req.Messages[r.IntN(len(req.Messages))]
			m.Content = long(fmt.Sprint("edited ", i))
		case 3: // or a call's arguments
			if m := &req.Messages[r.IntN(len(req.Messages))]; len(m.ToolCalls) > 0 {
				m.ToolCalls[0].Arguments = fmt.Sprintf(`{"text":"%d %s"}`, i, long("edited"))
			}
		default:
			req.Messages = append(req.Messages, chat.User(long(fmt.Sprint("message ", i))))
		}
		wants(t, e, req)
	}
	require.False(t, t.Failed(), "seed %d", seed)
}

func TestOnlyWhatIsSentAgainIsKept(t *testing.T) {
	e := newEncoded()
	for i := range 1000 {
		wants(t, e, &chat.Request{Model: "m", Messages: []chat.Message{chat.User(long(fmt.Sprint("once ", i)))}})
	}
	assert.Zero(t, e.used.Len(), "calls that are not repeated leave nothing")

	again := &chat.Request{Model: "m", Messages: []chat.Message{chat.User(long("again"))}}
	var parts []*byte
	for range 3 {
		wants(t, e, again)
		p, err := e.payload(again, chat.Form{}, "", true, true)
		require.NoError(t, err)
		if len(p.parts) == 3 {
			parts = append(parts, &p.parts[1][0])
		}
	}
	assert.Equal(t, 1, e.used.Len())
	require.Len(t, parts, 3)
	assert.Same(t, parts[0], parts[2], "it is not encoded once more")
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	e := newEncoded()
	text := strings.Repeat("x", 1<<20)
	for i := range 100 {
		req := &chat.Request{Model: "m", Messages: []chat.Message{chat.User(fmt.Sprint(i) + text)}}
		wants(t, e, req)
		wants(t, e, req)
	}
	assert.LessOrEqual(t, e.size, encodedBytes)
	assert.Greater(t, e.used.Len(), 20)
	assert.Len(t, e.byHash, e.used.Len())
}
