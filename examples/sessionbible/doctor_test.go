package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
)

// A run keeps what was set how, and another can be held against it.
func TestRunsCanBeCompared(t *testing.T) {
	t.Setenv("MY_TOKEN", "hunter2")
	t.Setenv("MY_PROXY", "http://user:hunter2@h:1")
	// This setting is one in which nothing happens.
	// Two seconds are not enough for an article: what is kept is kept at the start.
	args := []string{"-incident", "overload", "-articles", "2", "-agents", "2", "-deadline", "2s"}
	none := runIt(t.Context(), t, append(args, "-compare", t.TempDir())...)
	assert.Equal(t, exitUsage, none.code)
	assert.Contains(t, none.stderr, "-compare: there is nothing to compare with: ")
	assert.NoDirExists(t, none.dir)

	r := runIt(t.Context(), t, append(args, "-keep-env", "PATH,MY_TOKEN,MY_PROXY")...)
	require.NotEqual(t, exitUsage, r.code, r.stderr)
	assert.Contains(t, r.stderr, "overload is there from the beginning, and stays")
	assert.Contains(t, r.stderr, "the run ends after 2s at the latest (-deadline); Ctrl-C ends it with all drafts kept")
	require.NotNil(t, r.report.Run.Verdict)
	assert.Equal(t, "overload", *r.report.Run.Incident)

	file := filepath.Join(r.dir, journalDir, fingerprintFile)
	f, err := readFingerprint(r.dir)
	require.NoError(t, err)
	require.NotNil(t, f)
	require.Len(t, f.Servers, 1)
	assert.Equal(t, health.KindSGLang, f.Servers[0].Kind)
	assert.NotEmpty(t, f.Client)
	assert.NotEmpty(t, f.Env["PATH"])
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "hunter2")
	assert.Contains(t, string(text), `"MY_PROXY": "http://(hidden)@h:1"`)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())

	again := runIt(t.Context(), t, append(args, "-compare", r.dir, "-first-output", "45s")...)
	require.NotEqual(t, exitUsage, again.code, again.stderr)
	joined := strings.Join(again.report.Run.Changes, "\n")
	assert.Contains(t, joined, "client: Clocks.FirstOutput.Limit was not there, is 45s")
	assert.Contains(t, again.stderr, "the most suspicious first")
	assert.NotContains(t, joined, "PATH", "the second run has not asked for it")
	assert.NotContains(t, joined, "process started", "it is another engine at another address")

	same, err := readFingerprint(file)
	require.NoError(t, err, "its file is as good as its folder")
	assert.Empty(t, health.Compare(*f, *same))
	assert.NotNil(t, same)
}

func TestRunsToCompareWith(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	f, err := readFingerprint(dir)
	assert.Nil(t, f)
	assert.ErrorContains(t, err, "holds no journal/fingerprint.json", "a run without one")
	_, err = readFingerprint(filepath.Join(dir, "nowhere"))
	assert.ErrorContains(t, err, "-compare: ")
	_, err = readFingerprint(broken)
	assert.ErrorContains(t, err, "-compare "+broken+": health: fingerprint: ")
}

// A fault is shown with its page, and stays in the report; what ends it is a
// line.
func TestVerdictsAreShown(t *testing.T) {
	var out strings.Builder
	d, err := newDoctor(&options{}, []health.Target{{URL: "http://localhost:1"}}, time.Second)
	require.NoError(t, err)
	defer d.close()
	d.say = func(format string, args ...any) { out.WriteString("note: " + args[0].(string) + "\n") }
	d.put = func(page string) { out.WriteString(page) }
	at := time.Date(2026, 2, 16, 3, 47, 0, 0, time.UTC)
	d.told(health.Verdict{State: health.StateHealthy, Confidence: health.ConfidenceHigh, At: at})
	assert.Empty(t, out.String(), "nothing is said of health")
	d.told(health.Verdict{State: health.StateWedgedEngine, Confidence: health.ConfidenceHigh, At: at, Since: at.Add(-time.Minute), Evidence: []health.Fact{{Text: "running 5 then 5"}}, Do: []string{"restart it"}})
	assert.Contains(t, out.String(), "\n    WEDGED ENGINE since 03:46:00, for 1m0s (high confidence)\n      running 5 then 5\n\n    what to do\n      - restart it\n")
	d.told(health.Verdict{State: health.StateRecovered, Confidence: health.ConfidenceHigh, At: at.Add(time.Minute)})
	assert.Contains(t, out.String(), "note: recovered (high confidence)\n")

	r := &report{}
	d.fill(r)
	b, err := json.Marshal(r.Run.Verdict)
	require.NoError(t, err)
	assert.JSONEq(t, `{"state":"wedged engine","confidence":"high","at":"2026-02-16T03:47:00Z","since":"2026-02-16T03:46:00Z","evidence":["running 5 then 5"],"do":["restart it"]}`, string(b))
}
