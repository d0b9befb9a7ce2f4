package health_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

// llama.cpp answers its metrics and slots between two batches, and its models at
// any time. That the first are silent may be a long prompt, or its end.
func TestQuestionsThatWaitForTheirTurn(t *testing.T) {
	const begins = 25 * time.Second
	tests := map[string]struct {
		metrics bool
		gone    bool // the front end is silent as well
		prompt  int  // bytes
		phase   llmclient.Phase
		after   time.Duration // since it began
		want    health.State
		cuts    bool
	}{
		"a prompt of twenty minutes":                  {true, false, 500_000, llmclient.PhaseFirstOutput, 20*time.Minute + 5*time.Second, health.StateCannotTell, false},
		"the same, without metrics":                   {false, false, 500_000, llmclient.PhaseFirstOutput, 20*time.Minute + 5*time.Second, health.StateCannotTell, false},
		"beyond what any prompt takes":                {true, false, 500_000, llmclient.PhaseFirstOutput, 22*time.Minute + 5*time.Second, health.StateFrontEndAlone, true},
		"a short prompt":                              {true, false, 1000, llmclient.PhaseFirstOutput, 45*time.Second + time.Millisecond, health.StateFrontEndAlone, true},
		"an answer that stopped in the middle":        {true, false, 1000, llmclient.PhaseOutput, 45*time.Second + time.Millisecond, health.StateFrontEndAlone, true},
		"the same, without metrics, and just stopped": {false, false, 1000, llmclient.PhaseOutput, 12 * time.Second, health.StateCannotTell, false},
		"nobody answers":                              {true, true, 500_000, llmclient.PhaseFirstOutput, 45*time.Second + time.Millisecond, health.StateUnreachable, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				silent := func(r *http.Request) bool {
					if time.Since(start) < begins {
						return false
					}
					<-r.Context().Done()
					panic(http.ErrAbortHandler) // not even an empty answer
				}
				var a asker
				answers := pages{
					"/v1/models": func(w http.ResponseWriter, r *http.Request) {
						if !tt.gone || !silent(r) {
							text(`{"data":[{"id":"m","owned_by":"llamacpp"}]}`)(w, r)
						}
					},
					"/props": text(`{"total_slots":1}`),
					"/slots": func(w http.ResponseWriter, r *http.Request) {
						if !silent(r) {
							text(`[{"is_processing":true,"next_token":[{"n_decoded":5}]}]`)(w, r)
						}
					},
				}
				if tt.metrics {
					answers["/metrics"] = func(w http.ResponseWriter, r *http.Request) {
						if !silent(r) {
							text("llamacpp:requests_processing 1\nllamacpp:tokens_predicted_total 5\n")(w, r)
						}
					}
				}
				srv := fakeserver.New(fakeserver.Config{Handler: answers})
				defer srv.Close()
				tr := srv.Transport()
				tr.DisableKeepAlives = true
				a.RoundTripper = tr
				mon, err := health.New(health.Config{Targets: []health.Target{{URL: "http://model.test"}}, HTTPClient: &http.Client{Transport: &a}})
				require.NoError(t, err)
				defer mon.Close()
				client := &one{}
				mon.Watch(client)
				time.Sleep(begins - time.Second)
				call := llmclient.InFlight{Call: 1, Started: time.Now(), Since: time.Now(), Phase: tt.phase, PromptBytes: tt.prompt}
				if tt.phase == llmclient.PhaseOutput {
					call.FirstOutput, call.LastOutput, call.Bytes = time.Now(), time.Now(), 10
				}
				client.set(call)
				mon.Note(llmclient.Event{Kind: llmclient.EventAttempt, Call: 1, Time: time.Now()})
				time.Sleep(time.Second + tt.after)
				got := mon.Advise(t.Context(), client.InFlight())
				v := mon.Verdict()
				assert.Equal(t, tt.want, v.State, "%s", v)
				assert.Equal(t, tt.cuts, got.State == llmclient.AdviceIdle, "%s: %v", v, got)
				waits := a.count("/metrics") + a.count("/slots")
				assert.LessOrEqual(t, waits, 6+int(tt.after/(20*time.Second)), "what is silent is asked less and less: they pile up")
			})
		})
	}
}
