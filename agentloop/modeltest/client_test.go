package modeltest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/agentloop/modeltest"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// The module's own client is a Model, streaming or not.
func TestTheClientIsAModel(t *testing.T) {
	calls := modeltest.ToolCalls()
	first := fakeserver.CallTool(calls[0].ID, calls[0].Name, calls[0].Arguments)
	scripts := map[modeltest.Situation]fakeserver.Script{
		modeltest.Answers: fakeserver.Always(fakeserver.Answer(modeltest.Text)),
		modeltest.Calls: fakeserver.Always(first, fakeserver.CallTool(calls[1].ID, calls[1].Name, calls[1].Arguments),
			fakeserver.Finish("tool_calls"), fakeserver.Done()),
		modeltest.Cut: fakeserver.Always(first, fakeserver.CallTool(calls[1].ID, calls[1].Name, calls[1].Arguments[:5]),
			fakeserver.Finish("length"), fakeserver.Done()),
		modeltest.Silent:  fakeserver.Always(fakeserver.Hang()),
		modeltest.Busy:    fakeserver.Always(fakeserver.Unavailable()),
		modeltest.Refused: fakeserver.Always(fakeserver.Error(401, "authentication_error", "invalid_api_key", "who are you?")),
		modeltest.TooLong: fakeserver.Always(fakeserver.Error(400, "invalid_request_error", "context_length_exceeded", "too long")),
	}
	for name, wrap := range map[string]func(fakeserver.Script) fakeserver.Script{
		"streaming": func(s fakeserver.Script) fakeserver.Script { return s },
		"plain":     fakeserver.NoStreams,
	} {
		t.Run(name, func(t *testing.T) {
			err := modeltest.Check(t.Context(), func(s modeltest.Situation) (agentloop.Model, func(), error) {
				srv := fakeserver.New(fakeserver.Config{Script: wrap(scripts[s])})
				tr := srv.Transport()
				client, err := llmclient.New(llmclient.Config{
					BaseURL: srv.BaseURL(), Model: "model", HTTPClient: &http.Client{Transport: tr},
					Retry: llmclient.Retry{Attempts: 2, Backoff: 10 * time.Millisecond},
				})
				return client, func() {
					_ = client.Close()
					tr.CloseIdleConnections()
					srv.Close()
				}, err
			})
			require.NoError(t, err)
		})
	}
}
