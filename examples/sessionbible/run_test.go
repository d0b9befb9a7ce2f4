package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/neverhang/neverhang/llmclient"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// asProgram makes the test binary be the program, for tests that send signals.
const asProgram = "SESSIONBIBLE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	// Whole runs wait much and work little, so more of them than there are
	// processors may go on at the same time.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// ran is what a run left.
type ran struct {
	code           int
	stdout, stderr string
	dir            string
	report         *report
	took           time.Duration
}

// runIt runs the program in this process, with a report and a folder of its
// own.
func runIt(ctx context.Context, t *testing.T, args ...string) *ran {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	r := &ran{dir: filepath.Join(dir, "bible")}
	var stdout, stderr bytes.Buffer
	began := time.Now()
	r.code = run(ctx, append([]string{"-out", r.dir, "-report", file}, args...), &stdout, &stderr)
	r.took, r.stdout, r.stderr = time.Since(began), stdout.String(), stderr.String()
	if data, err := os.ReadFile(file); err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&r.report))
	}
	return r
}

func TestWholeBookInSpiteOfFaultsAndHabits(t *testing.T) {
	t.Parallel()
	r := runIt(t.Context(), t) // as one tries it first: the default faults and habits
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Less(t, r.took, 2*time.Minute, "half a minute where nothing else runs")

	s, err := readSession("")
	require.NoError(t, err)
	checkBook(t, r, s, planArticles(s, 0))

	tot := r.report.Totals
	assert.Equal(t, map[string]int{"done": 45}, tot.Outcomes)
	assert.Equal(t, 45, tot.Saved)
	assert.Zero(t, tot.Drafts)
	require.NotNil(t, tot.FaultsInjected)
	assert.Greater(t, 3**tot.FaultsInjected, tot.Requests, "more than a third of all requests")
	assert.Positive(t, tot.Retries)
	assert.Positive(t, tot.Survived)
	// A request that met the outage at the door reached no handler, so the
	// server counts no more than were sent.
	assert.LessOrEqual(t, *tot.ServerRequests, tot.Requests)
	assert.Greater(t, *tot.ServerRequests, tot.Requests*8/10)
	attempts, injected := 0, 0
	for _, a := range r.report.Agents {
		assert.Equal(t, []string{stepRead, stepWrite, stepSave}, a.Steps, a.Name)
		assert.Empty(t, a.Missing)
		assert.Nil(t, a.Error)
		assert.LessOrEqual(t, a.Rounds, a.Attempts)
		attempts += a.Attempts
	}
	for _, n := range tot.Faults {
		injected += n
	}
	assert.Equal(t, tot.Requests, attempts)
	assert.Equal(t, *tot.FaultsInjected, injected)
	assert.Contains(t, r.stdout, "45 of 45 articles saved")
	assert.Contains(t, r.stderr, "its clocks are short, so that a hang costs a demo little: Connect 1s")
	assert.Regexp(t, `saved \d+/45 · agents: .* · in flight \d+ .*retries \d+ · breaker `, r.stderr)
}

func TestBookFromAServerThatWantsPauses(t *testing.T) {
	t.Parallel()
	r := runIt(t.Context(), t, "-articles", "8", "-faults", "429=0.3,503=0.1,529=0.1")
	require.Equal(t, exitDone, r.code, r.stderr)
	s, err := readSession("")
	require.NoError(t, err)
	checkBook(t, r, s, planArticles(s, 8))
	assert.Positive(t, r.report.Totals.Faults["429"])
	assert.Positive(t, r.report.Totals.Survived)
}

// checkBook looks at every article of a whole book.
func checkBook(t *testing.T, r *ran, s *session, plan []article) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, articlesDir, "*"))
	require.NoError(t, err)
	require.Len(t, files, len(plan))
	slices.Sort(files)
	for i, file := range files {
		a := plan[i]
		assert.True(t, strings.HasPrefix(filepath.Base(file), fmt.Sprintf("%03d-", a.Number)), file)
		assert.Equal(t, file, *r.report.Agents[i].Article)
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		front, body, ok := strings.Cut(strings.TrimPrefix(string(data), "---\n"), "\n---\n\n")
		require.True(t, ok, file)
		var numbers []int
		for line := range strings.Lines(front) {
			name, value, _ := strings.Cut(line, ": ")
			require.True(t, json.Valid([]byte(value)), "%s: %s", file, line)
			if name == "messages" {
				require.NoError(t, json.Unmarshal([]byte(value), &numbers))
			}
		}
		require.NotEmpty(t, numbers, file)
		assert.Equal(t, a.First, numbers[0], file)
		assert.Equal(t, a.Last, numbers[len(numbers)-1], file)
		assert.True(t, strings.HasPrefix(body, "# "), file)
		assert.Contains(t, body, "## Summary", file)
		assert.Equal(t, 1, strings.Count(body, "## Summary"), file)
		assert.LessOrEqual(t, strings.Count(body, "## Message by message"), 1, file)
		for n := a.First; n <= a.Last; n++ {
			assert.Contains(t, body, fmt.Sprintf("message %d", n), file)
		}
		checkQuotes(t, file, body, s, a)
		neighbours := 2
		if i == 0 || i == len(files)-1 {
			neighbours = 1
		}
		assert.GreaterOrEqual(t, checkLinks(t, file), neighbours+1, file)
	}
	assert.Equal(t, len(plan), checkLinks(t, filepath.Join(r.dir, indexFile)))
	drafts, err := os.ReadDir(filepath.Join(r.dir, draftsDir))
	require.NoError(t, err)
	assert.Empty(t, drafts)
}

// checkQuotes finds the words of each quote in the messages of the article.
func checkQuotes(t *testing.T, file, body string, s *session, a article) {
	t.Helper()
	letters := func(text string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, text)
	}
	var own strings.Builder
	for i := a.First; i <= a.Last; i++ {
		own.WriteString(letters(s.Messages[i].text()))
	}
	quotes := 0
	for line := range strings.Lines(body) {
		quote, ok := strings.CutPrefix(strings.TrimSpace(line), "> ")
		if !ok || strings.HasPrefix(quote, "—") {
			continue
		}
		quotes++
		assert.Contains(t, own.String(), letters(quote), file)
	}
	assert.Positive(t, quotes, file)
}

func TestSessionWithOneLongWord(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "word.json")
	word := strings.Repeat("QUJD", 50_000)
	code := "var a=1;" + strings.Repeat("f(a,b);", 10_000)
	data, err := json.Marshal(map[string]any{"info": map[string]any{"title": "t"}, "messages": []any{
		map[string]any{"info": map[string]any{"role": "user"}, "parts": []any{map[string]any{"type": "text", "text": "Encode this file: " + word}}},
		map[string]any{"info": map[string]any{"role": "assistant"}, "parts": []any{map[string]any{"type": "text", "text": "Minified: " + code}}},
	}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, data, 0o644))
	r := runIt(t.Context(), t, "-faults", "none", "-habits", "none", "-deadline", "20s", file)
	require.Equal(t, exitDone, r.code, r.stderr)
	assert.Equal(t, 2, r.report.Totals.Saved)
	assert.Zero(t, r.report.Totals.Restarts)
}

func TestRestartsAreToldWithTheirCause(t *testing.T) {
	t.Parallel()
	r := runIt(t.Context(), t, "-faults", "500=1", "-habits", "none", "-articles", "2", "-deadline", "9s")
	assert.Equal(t, exitNotDone, r.code, r.stderr)
	assert.Regexp(t, `restarts: server 500 \d+.* · breaker`, r.stderr)
	for _, a := range r.report.Agents {
		require.NotNil(t, a.Error, a.Name)
		assert.Regexp(t, `; restarted before: .*server 500 \d+`, *a.Error)
	}
}

func TestWhatConcernsTheEndpointIsNoted(t *testing.T) {
	var stderr bytes.Buffer
	say := newPrinter(&stderr)
	h := &harness{tally: newTally(nil), say: say, started: time.Now()}
	h.called(llmclient.Event{Kind: llmclient.EventDead, Text: "2 probes in a row were not answered"})
	h.called(llmclient.Event{Kind: llmclient.EventInsecure, Text: "the key goes over plain http"})
	h.called(llmclient.Event{Kind: llmclient.EventSuspect, Text: "one call waits long"})
	say.close()
	assert.Regexp(t, `^ +\S+  the endpoint is dead: 2 probes in a row were not answered\n +\S+  insecure: the key goes over plain http\n$`,
		stderr.String())
}

func TestFaultsFollowFromTheSeed(t *testing.T) {
	t.Parallel()
	// Without outages and with a clock that no healthy answer meets, what an
	// agent goes through is a matter of the seed alone.
	args := []string{"-articles", "8", "-faults", "reset=0.1,cut=0.05,error=0.05,500=0.1", "-habits", "none",
		"-first-output", "1m", "-gap", "1m"}
	trials := func(seed string) map[string][2]int {
		r := runIt(t.Context(), t, append([]string{"-seed", seed}, args...)...)
		require.Equal(t, exitDone, r.code, r.stderr)
		out := make(map[string][2]int)
		for _, a := range r.report.Agents {
			out[a.Name] = [2]int{a.Attempts, a.Survived}
		}
		return out
	}
	first := trials("7")
	assert.Equal(t, first, trials("7"))
	assert.NotEqual(t, first, trials("8"))
}

func TestDeadlineEndsTheRunWithAllNames(t *testing.T) {
	t.Parallel()
	r := runIt(t.Context(), t, "-faults", "hang=1", "-deadline", "1s")
	assert.Equal(t, exitNotDone, r.code)
	require.NotNil(t, r.report)
	assert.Len(t, r.report.Agents, 45)
	// The run is back on time. On a machine that is busy with other things an
	// agent may not be, and is named as abandoned.
	got := r.report.Totals.Outcomes
	assert.Equal(t, 45, got["exhausted"]+got["abandoned"], got)
	assert.GreaterOrEqual(t, got["exhausted"], 40, got)
	for _, a := range r.report.Agents {
		assert.Contains(t, r.stderr, a.Name)
		assert.GreaterOrEqual(t, a.DurationMS, int64(500), a.Name) // less than the deadline by its start
		assert.Less(t, a.DurationMS, int64(3000), a.Name)
	}
}

func TestNaiveRunShowsTheDeadlock(t *testing.T) {
	t.Parallel()
	healthy := runIt(t.Context(), t, "-naive", "-faults", "none", "-habits", "none", "-articles", "5")
	assert.Equal(t, exitDone, healthy.code, healthy.stderr)
	assert.Contains(t, healthy.stderr, "5 of 5 articles saved")
	assert.Equal(t, 5, checkLinks(t, filepath.Join(healthy.dir, indexFile)))

	o, err := parseOptions([]string{"-naive"}, nil)
	require.NoError(t, err)
	s, err := readSession("")
	require.NoError(t, err)
	server, err := startOffline(o)
	require.NoError(t, err)
	defer server.close()
	var stderr bytes.Buffer
	say := newPrinter(&stderr)
	h, err := newHarness(o, s, planArticles(s, 0), openTestBook(t, t.TempDir(), s), server, say)
	require.NoError(t, err)

	assert.Equal(t, exitStuck, writeNaively(t.Context(), h, 3*time.Second))
	say.close()
	assert.Contains(t, stderr.String(), "no call has returned for 3s; 0 did before.")
	assert.Regexp(t, `(?m)^ +45 goroutines in net/http\.\(\*persistConn\)\.roundTrip \(select\)$`, stderr.String())
	assert.Contains(t, stderr.String(), "net/http.(*Client).Do → ")
	assert.Regexp(t, `1 goroutine in sync\.\(\*WaitGroup\)\.Wait`, stderr.String())
	assert.Equal(t, 10*time.Second, naivePatience)
}

// endpointOf starts a server and returns flags that name it.
func endpointOf(t *testing.T, handler http.HandlerFunc) []string {
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	t.Setenv("TEST_KEY", "sk-very-secret")
	return []string{"-base-url", srv.URL + "/v1", "-api-key-env", "TEST_KEY"}
}

func TestTroubleOfAllIsToldOnce(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := "http://" + dead.Addr().String() + "/v1"
	require.NoError(t, dead.Close())
	r := runIt(t.Context(), t, "-base-url", address, "-model", "m")
	assert.Equal(t, exitNotDone, r.code)
	assert.Less(t, r.took, 2*time.Second)
	assert.Contains(t, r.stderr, "cannot reach "+address)
	assert.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
	assert.Equal(t, map[string]int{"cancelled": 45}, r.report.Totals.Outcomes, "the report names all of them")
	assert.NoDirExists(t, r.dir, "the folder is not touched")

	for name, c := range map[string]struct {
		models, chat int
		body, want   string
	}{
		"wrong key":             {401, 401, `{"error":{"message":"Incorrect API key"}}`, "refuses the key (401)"},
		"wrong key, found late": {404, 401, `{"error":{"message":"Incorrect API key"}}`, "key"},
		"wrong path":            {404, 404, "404 page not found", "404"},
		"unknown model":         {200, 404, `{"error":{"message":"The model m does not exist","code":"model_not_found"}}`, "model"},
		"no tools":              {200, 400, `{"error":{"message":"tools are not supported"}}`, "tools are not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			flags := endpointOf(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				status := c.models
				if r.Method == http.MethodPost {
					calls.Add(1)
					status = c.chat
				}
				w.WriteHeader(status)
				_, _ = w.Write([]byte(c.body))
			})
			r := runIt(t.Context(), t, append(flags, "-model", "m", "-articles", "5")...)
			assert.Equal(t, exitNotDone, r.code, r.stderr)
			assert.Less(t, r.took, 3*time.Second)
			assert.Contains(t, r.stderr, c.want)
			errors := 0
			for line := range strings.Lines(r.stderr) {
				if strings.HasPrefix(line, "sessionbible: ") {
					errors++
				}
			}
			assert.LessOrEqual(t, errors, 2, r.stderr)
			assert.LessOrEqual(t, calls.Load(), int32(5))
			assert.NotContains(t, r.stderr+r.stdout, "sk-very-secret")
		})
	}
}

func TestModelIsFoundIfThereIsOne(t *testing.T) {
	list := `{"data":[{"id":"only-one"}]}`
	flags := endpointOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(list))
	})
	r := runIt(t.Context(), t, flags...)
	assert.Contains(t, r.stderr, "the endpoint serves one model, only-one")
	assert.Equal(t, exitNotDone, r.code)

	list = `{"data":[{"id":"a"},{"id":"b"}]}`
	r = runIt(t.Context(), t, flags...)
	assert.Equal(t, exitUsage, r.code)
	assert.Equal(t, "sessionbible: -model is needed: the endpoint serves 2, a, b\n", r.stderr)
}

func TestCommandLinesThatCannotBeFollowed(t *testing.T) {
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut.json")
	require.NoError(t, os.WriteFile(cut, []byte(small[:500]), 0o644))
	silent := filepath.Join(dir, "silent.json")
	require.NoError(t, os.WriteFile(silent, []byte(`{"info":{"title":"T"},"messages":[{"info":{"role":"user"},"parts":[]}]}`), 0o644))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a flag":             {[]string{"-nope"}, "flag provided but not defined: -nope (-h lists the flags)"},
		"a cut session":      {[]string{cut}, "the export was cut short"},
		"no such session":    {[]string{filepath.Join(dir, "none")}, "no such file"},
		"a silent session":   {[]string{silent}, `no message of "T" is worth an article`},
		"a report nowhere":   {[]string{"-report", filepath.Join(dir, "no", "r.json")}, "-report"},
		"a report in place":  {[]string{"-report", dir}, "is a directory"},
		"an out that is one": {[]string{"-out", cut}, "-out"},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"-out", filepath.Join(dir, "b")}, c.args...)
		assert.Equal(t, exitUsage, run(t.Context(), args, &stdout, &stderr), name)
		assert.Contains(t, stderr.String(), c.want, name)
		assert.Equal(t, 1, strings.Count(stderr.String(), "\n"), "%s: %s", name, stderr.String())
	}
}

func TestBookFromANamedEndpoint(t *testing.T) {
	server, err := startOffline(&options{faults: "none", habits: "none"})
	require.NoError(t, err)
	defer server.close()
	s, err := readSession("")
	require.NoError(t, err)

	r := runIt(t.Context(), t, "-base-url", server.baseURL(), "-model", "m-1", "-articles", "5", "-gap", "9s", "-rpm", "6000", "-max-in-flight", "3")
	require.Equal(t, exitDone, r.code, r.stderr)
	checkBook(t, r, s, planArticles(s, 5))
	assert.Equal(t, server.baseURL(), r.report.Run.Endpoint)
	assert.Equal(t, "m-1", r.report.Run.Model)
	assert.Equal(t, map[string]string{"Gap": "9s"}, r.report.Run.Clocks)
	assert.Nil(t, r.report.Totals.FaultsInjected, "nobody counts them there")
	assert.Nil(t, r.report.Run.Seed)

	// The same behind a gateway that does not stream.
	backend, err := url.Parse(strings.TrimSuffix(server.baseURL(), "/v1"))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(backend)
	flags := endpointOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`"stream":true`)) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"message":"stream is not supported","param":"stream"}}`))
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	})
	r = runIt(t.Context(), t, append(flags, "-model", "m-1", "-articles", "5", "-agents", "2")...)
	require.Equal(t, exitDone, r.code, r.stderr)
	checkBook(t, r, s, planArticles(s, 5))
	assert.Equal(t, 1, strings.Count(r.stderr, "the endpoint: "), r.stderr)
}
