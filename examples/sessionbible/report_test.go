package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sampleReport is a run with one agent of each kind.
func sampleReport() *report {
	seed, faults, habits, n, requests := uint64(7), "hang=0.1", "none", 3, 12
	r := &report{
		Run: runReport{
			Started: time.Date(2026, 2, 16, 3, 47, 0, 0, time.UTC), DurationMS: 12345, ExitCode: 1,
			Session: sessionReport{ID: "ses_1", Title: "A \"talk\"", Messages: 9}, Out: "bible", Endpoint: "embedded",
			Model: "author", Parallel: 45, Articles: 3, Seed: &seed, Faults: &faults, Habits: &habits,
			Clocks: map[string]string{"FirstOutput": "1.5s"},
		},
		Totals: totals{Retries: 4, FaultsInjected: &n, Faults: map[string]int{"hang": 2, "429": 1}, ServerRequests: &requests},
		Agents: []agentReport{
			{Name: "article-001", Outcome: "done", Messages: "messages 0 to 1", Steps: []string{"read", "write", "save"},
				Rounds: 4, Attempts: 7, Survived: 3, Article: orNull("bible/articles/001-a.md"), DurationMS: 2500},
			{Name: "article-002", Outcome: "stalled", Messages: "message 2", Steps: []string{"read", "write"}, Missing: []string{"save"},
				Rounds: 9, Restarts: 1, Attempts: 5, Draft: orNull("bible/drafts/article-002.md"), Error: orNull("stopped with steps missing"), DurationMS: 900},
			{Name: "article-003", Outcome: "stalled", Messages: "message 3", Missing: []string{"read", "write", "save"},
				Error: orNull("stopped with steps missing")},
		},
	}
	r.sum()
	return r
}

func TestReportKeepsItsShape(t *testing.T) {
	got, err := sampleReport().encode()
	require.NoError(t, err)
	golden(t, "report.json", got)
}

func TestSummaryIsForPeople(t *testing.T) {
	var b bytes.Buffer
	r := sampleReport()
	r.complain(&b)
	r.summary(&b)
	golden(t, "summary.txt", b.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

func TestSameTroubleIsToldOnce(t *testing.T) {
	r := &report{}
	for range 45 {
		r.Agents = append(r.Agents, agentReport{Name: "a", Outcome: "cancelled", Error: orNull("wrong key")})
	}
	r.Agents = append(r.Agents, agentReport{Name: "b", Outcome: "failed"}, agentReport{Name: "c", Outcome: done})
	var b bytes.Buffer
	r.complain(&b)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, 4)
	assert.Equal(t, "sessionbible: 45 cancelled: wrong key", lines[0])
	assert.Equal(t, 45, strings.Count(lines[1], "a"))
	assert.Equal(t, []string{"sessionbible: 1 failed: no error", "    b"}, lines[2:])
}

func TestOneCauseInManyWordsIsToldOnce(t *testing.T) {
	err := func(after string) *string {
		return orNull("llmclient: silent for " + after + " (a restart in 17.025860889s would come after the deadline in 45.488396ms)")
	}
	r := &report{Agents: []agentReport{
		{Name: "a", Outcome: "failed", kind: "timeout of Gap", Error: err("1.000012345s")},
		{Name: "b", Outcome: "failed", kind: "timeout of Gap", Error: err("1m2.5s")},
		{Name: "c", Outcome: "stalled", kind: "timeout of Gap", Error: err("1.000012345s")},
		{Name: "d", Outcome: "failed", kind: "timeout of Call", Error: err("2s")},
	}}
	var b bytes.Buffer
	r.complain(&b)
	tail := " (a restart in 17s would come after the deadline in 45ms)\n    "
	assert.Equal(t, "sessionbible: 2 failed, for example: llmclient: silent for 1s"+tail+"a, b\n"+
		"sessionbible: 1 stalled: llmclient: silent for 1s"+tail+"c\n"+
		"sessionbible: 1 failed: llmclient: silent for 2s"+tail+"d\n", b.String())
}

func TestRoundTimes(t *testing.T) {
	for in, want := range map[string]string{
		"after 1m2.503s, 3s": "after 1m3s, 3s", "12.345678ms and 1.2345µs": "12ms and 1µs", "v1.2 took 1h0m0.5s": "v1.2 took 1h0m1s",
		"1.5s": "1.5s", "10.0.0.1:80": "10.0.0.1:80", "1.5sec": "1.5sec",
	} {
		assert.Equal(t, want, roundTimes(in))
	}
}

func TestSummaryWithoutFaults(t *testing.T) {
	none := 0
	var b bytes.Buffer
	(&report{Totals: totals{FaultsInjected: &none}}).summary(&b)
	assert.Contains(t, b.String(), "faults injected: 0\n")
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 4210 * time.Millisecond: "4.2s", 75 * time.Second: "1m15s", 12*time.Second + 600*time.Millisecond: "13s",
	} {
		assert.Equal(t, want, seconds(d))
	}
}
