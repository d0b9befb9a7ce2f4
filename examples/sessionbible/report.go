package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/neverhang/neverhang/health"
)

// A report tells how a run went. It is written as JSON, even if the run was
// interrupted or failed.
type report struct {
	Run    runReport     `json:"run"`
	Totals totals        `json:"totals"`
	Agents []agentReport `json:"agents"`

	goOn string // the command that goes on with the book, "" if there is none
}

// A runReport says what was run. It holds no key.
type runReport struct {
	Started    time.Time     `json:"started"`
	DurationMS int64         `json:"duration_ms"`
	ExitCode   int           `json:"exit_code"`
	Error      *string       `json:"error"` // why the run as a whole ended early
	Session    sessionReport `json:"session"`
	Out        string        `json:"out"`
	Endpoint   string        `json:"endpoint"` // embedded, or the base URL
	Model      string        `json:"model"`
	Parallel   int           `json:"agents"` // in parallel, at most
	Articles   int           `json:"articles"`

	// The rest is about the embedded server, and null without it.
	Seed   *uint64 `json:"seed"`
	Faults *string `json:"faults"`
	Habits *string `json:"habits"`

	// Incident is the incident that the embedded engine played, and IncidentSaid the
	// verdict on it; both are absent without one.
	Incident     *string `json:"incident,omitempty"`
	IncidentSaid *string `json:"incident_said,omitempty"`

	// Clocks are the limits that were set, by name.
	Clocks map[string]string `json:"clocks"`

	// Verdict is the last fault of the server, or its state at the end if there was
	// none. It is null if there was no server to ask.
	Verdict *verdictReport `json:"verdict"`

	// Explanations are the verdicts on stalls, from the servers' state at that time.
	Explanations []string `json:"explanations,omitempty"`

	// Changes are the differences from the run that this one was compared with, the most
	// suspicious first.
	Changes []string `json:"changes,omitempty"`
}

type sessionReport struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Messages int    `json:"messages"`
}

// totals adds the agents up. Requests counts every attempt that was sent, or
// that failed on its way.
type totals struct {
	Agents   int            `json:"agents"`
	Outcomes map[string]int `json:"outcomes"`
	Saved    int            `json:"saved"`
	Drafts   int            `json:"drafts"`
	Requests int            `json:"requests"`
	Retries  int            `json:"retries"`
	Restarts int            `json:"restarts"`
	Survived int            `json:"faults_survived"`
	Stalls   int            `json:"stalls"` // how often the watchdog spoke

	// FaultsInjected counts the faults that the embedded server played, Faults the same
	// by kind. Null for any other endpoint.
	FaultsInjected *int           `json:"faults_injected"`
	Faults         map[string]int `json:"faults,omitempty"`

	// ServerRequests is how many requests the embedded server received.
	ServerRequests *int `json:"server_requests,omitempty"`
}

// An agentReport is the outcome of one agent.
type agentReport struct {
	Name       string   `json:"name"`
	Outcome    string   `json:"outcome"`
	Messages   string   `json:"messages"`
	Steps      []string `json:"steps"`
	Missing    []string `json:"missing"`
	Rounds     int      `json:"rounds"`
	Replayed   int      `json:"replayed"` // of the rounds, by an earlier run
	Restarts   int      `json:"restarts"`
	Attempts   int      `json:"attempts"`
	Survived   int      `json:"faults_survived"` // failed attempts that a later one made good
	Article    *string  `json:"article"`
	Draft      *string  `json:"draft"`
	Error      *string  `json:"error"`
	DurationMS int64    `json:"duration_ms"`

	kind string // of the error, for people, who want one line for one cause
}

// newReport begins the report of a run.
func newReport(o *options, s *session, articles int, started time.Time) *report {
	r := &report{Run: runReport{
		Started:  started.UTC(),
		Session:  sessionReport{ID: s.ID, Title: s.Title, Messages: len(s.Messages)},
		Out:      o.out,
		Endpoint: "embedded",
		Model:    o.model,
		Parallel: o.agents,
		Articles: articles,
		Clocks:   map[string]string{},
	}}
	if !o.embedded() {
		r.Run.Endpoint = hideKey(o.baseURL)
	}
	return r
}

const done = "done" // the outcome of an agent that did its work

// sum fills in what follows from the agents.
func (r *report) sum() {
	t := &r.Totals
	t.Agents, t.Outcomes = len(r.Agents), map[string]int{}
	for i := range r.Agents {
		a := &r.Agents[i]
		// Lists are empty, not null.
		a.Steps, a.Missing = append([]string{}, a.Steps...), append([]string{}, a.Missing...)
		t.Outcomes[a.Outcome]++
		t.Requests += a.Attempts
		t.Restarts += a.Restarts
		t.Survived += a.Survived
		if a.Article != nil {
			t.Saved++
		}
		if a.Draft != nil {
			t.Drafts++
		}
	}
}

func (r *report) encode() ([]byte, error) {
	data, err := json.MarshalIndent(r, "", "  ")
	return append(data, '\n'), err
}

// deliver writes the report as JSON where it is wanted, if it is.
func (r *report) deliver(file string, stdout io.Writer, say *printer) error {
	if file == "" {
		return nil
	}
	data, err := r.encode()
	switch {
	case err != nil:
	case file == "-":
		_, err = stdout.Write(data)
	case isOutput(file, say.w):
		_, err = say.Write(data)
	default:
		err = writeFileAt(file, data)
	}
	if err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	return nil
}

// finish delivers the report, tells people how the run went, and returns the
// exit code. The file comes first: a terminal may be slow.
func (r *report) finish(o *options, stdout io.Writer, say *printer) int {
	err := r.deliver(o.report, stdout, say)
	r.complain(say)
	if o.report == "-" {
		r.summary(say)
	} else {
		say.flush()
		r.summary(stdout)
	}
	if err != nil {
		say.line("sessionbible: %v", err)
		if r.Run.ExitCode == exitDone {
			return exitNotDone
		}
	}
	return r.Run.ExitCode
}

// summary writes what a person wants to know at the end.
func (r *report) summary(w io.Writer) {
	t := &r.Totals
	took := time.Duration(r.Run.DurationMS) * time.Millisecond
	fmt.Fprintf(w, "\n%d of %d articles saved in %s, in %s\n", t.Saved, r.Run.Articles, seconds(took), r.Run.Out)
	if t.Drafts > 0 {
		fmt.Fprintf(w, "  drafts kept: %d\n", t.Drafts)
	}
	var outcomes []string
	for name, n := range t.Outcomes {
		outcomes = append(outcomes, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(outcomes)
	fmt.Fprintf(w, "  agents: %s\n", strings.Join(outcomes, ", "))
	fmt.Fprintf(w, "  requests: %d, of them %d retries; failed attempts survived: %d; agents restarted: %d times\n",
		t.Requests, t.Retries, t.Survived, t.Restarts)
	if r.Run.Incident != nil && r.Run.IncidentSaid != nil {
		fmt.Fprintf(w, "  said of %s: %s\n", *r.Run.Incident, *r.Run.IncidentSaid)
	}
	// Without calls there is nothing to report.
	if v := r.Run.Verdict; v != nil && r.Run.ExitCode != exitDone && (v.State != string(health.StateCannotTell) || v.calls > 0) {
		fmt.Fprintf(w, "  the server: %s (%s confidence)", v.State, v.Confidence)
		if len(v.Evidence) > 0 {
			fmt.Fprintf(w, ": %s", v.Evidence[0])
		}
		fmt.Fprintln(w)
		for _, do := range v.Do {
			fmt.Fprintf(w, "    %s\n", do)
		}
	}
	if t.FaultsInjected != nil {
		fmt.Fprintf(w, "  faults injected: %d%s\n", *t.FaultsInjected, inParens(counts(t.Faults)))
	}
	if r.goOn != "" && r.Run.ExitCode == exitInterrupted {
		fmt.Fprintf(w, "  to go on: %s\n", r.goOn)
	}
}

// complain names on w the agents that are not done, and why.
func (r *report) complain(w io.Writer) {
	for _, f := range r.failures() {
		what := f.outcome
		if f.differ {
			what += ", for example"
		}
		fmt.Fprintf(w, "sessionbible: %d %s: %s\n    %s\n", len(f.names), what, f.text, strings.Join(f.names, ", "))
	}
}

// counts writes a table of counts in one line, the largest first.
func counts(m map[string]int) string {
	names := make([]string, 0, len(m))
	for name, n := range m {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, m[name])
	}
	return strings.Join(names, ", ")
}

// inParens writes a remark behind something, if there is one.
func inParens(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// seconds writes a duration for people: 4.2s, 75s, 12m30s.
func seconds(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

// orNull returns nil for an empty text.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
