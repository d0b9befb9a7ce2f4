package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/neverhang/neverhang/agentloop"
	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/llmclient"
)

// fingerprintFile is in the journal's folder. It holds the settings of servers and
// client at the beginning of the run.
const fingerprintFile = "fingerprint.json"

// fingerprintLimit bounds the questions to the servers for it.
const fingerprintLimit = 5 * time.Second

// A doctor watches the servers of a run, and reports what is wrong with them.
type doctor struct {
	mon *health.Monitor
	say func(format string, args ...any)
	put func(page string)

	mu      sync.Mutex
	tools   map[string]health.Activity // under way, by agent and call
	worst   *verdictReport             // the last fault
	said    []saying                   // what was said, but for nothing being wrong
	changes []health.Difference        // since the run that this one is compared with
	ill     bool
}

// A verdictReport is a verdict in the report.
type verdictReport struct {
	State      string   `json:"state"`
	Confidence string   `json:"confidence"`
	At         string   `json:"at"`
	Since      string   `json:"since,omitempty"`
	Evidence   []string `json:"evidence"`
	Do         []string `json:"do"`

	calls int // that were in flight
}

func newVerdictReport(v health.Verdict) *verdictReport {
	r := &verdictReport{State: string(v.State), Confidence: v.Confidence.String(), At: v.At.UTC().Format(time.RFC3339), Evidence: []string{}, Do: append([]string{}, v.Do...), calls: v.Uniform.Of}
	if !v.Since.IsZero() {
		r.Since = v.Since.UTC().Format(time.RFC3339)
	}
	for _, f := range v.Evidence {
		r.Evidence = append(r.Evidence, f.String())
	}
	return r
}

// newDoctor returns a doctor for the servers of the command line, or nil if there is
// nothing to watch.
func newDoctor(o *options, targets []health.Target, interval time.Duration) (*doctor, error) {
	if len(targets) == 0 {
		return nil, nil
	}
	d := &doctor{tools: make(map[string]health.Activity), say: func(string, ...any) {}, put: func(string) {}}
	mon, err := health.New(health.Config{Targets: targets, Interval: interval, Local: d.local, OnVerdict: d.told})
	d.mon = mon
	return d, err
}

// targets are the servers that the command line names.
func (o *options) targets() []health.Target {
	if o.embedded() || o.naive {
		return nil
	}
	list := []health.Target{{URL: o.baseURL, APIKey: o.apiKey}}
	for _, u := range o.servers {
		list = append(list, health.Target{URL: u}) // the key is the endpoint's alone
	}
	return list
}

// acted gets the events of the group, which tell which tools run.
func (d *doctor) acted(e agentloop.Event) {
	if d == nil {
		return
	}
	key := e.Agent + "\n" + e.CallID
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Kind {
	case agentloop.EventToolStarted:
		d.tools[key] = health.Activity{Caller: e.Agent, What: "tool " + e.Tool, Since: e.Time}
	case agentloop.EventToolEnded, agentloop.EventToolPanicked, agentloop.EventToolAbandoned:
		delete(d.tools, key)
	}
}

func (d *doctor) local() []health.Activity {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]health.Activity, 0, len(d.tools))
	for _, a := range d.tools {
		list = append(list, a)
	}
	return list
}

// told gets each new verdict that differs from the one before. A fault is printed as
// a page.
func (d *doctor) told(v health.Verdict) {
	d.mu.Lock()
	was := d.ill
	d.ill = v.State.Fault() || v.State == health.StateCannotTell
	if v.State.Fault() {
		d.worst = newVerdictReport(v)
	}
	switch v.State {
	case health.StateIdle, health.StateHealthy, health.StateBusy:
	default:
		d.said = append(d.said, saying{v.At, v.State})
	}
	d.mu.Unlock()
	switch {
	case v.State.Fault() || v.State == health.StateCannotTell:
		d.put("\n" + indent(v.String()) + "\n")
	case was:
		d.say("the server: %s", v.Line())
	}
}

func indent(page string) string {
	lines := strings.Split(strings.TrimRight(page, "\n"), "\n")
	for i, l := range lines {
		if l != "" {
			lines[i] = "    " + l
		}
	}
	return strings.Join(lines, "\n")
}

// A saying is a verdict in words, with its time.
type saying struct {
	at    time.Time
	state health.State
}

// saidSince returns the verdicts since a moment, each state once.
func (d *doctor) saidSince(from time.Time) []saying {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []saying
	for _, s := range d.said {
		if !s.at.Before(from) && !slices.ContainsFunc(list, func(o saying) bool { return o.state == s.state }) {
			list = append(list, s)
		}
	}
	return list
}

// state describes the server in a few words, or is empty if all is well.
func (d *doctor) state() string {
	if d == nil {
		return ""
	}
	switch v := d.mon.Verdict(); v.State {
	case health.StateIdle, health.StateHealthy, health.StateBusy:
		return ""
	default:
		return string(v.State)
	}
}

// close stops watching.
func (d *doctor) close() {
	if d != nil {
		_ = d.mon.Close()
	}
}

// fill puts the verdict into the report: the last fault, or the present state.
func (d *doctor) fill(r *report) {
	if d == nil {
		return
	}
	v := d.mon.Verdict()
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Run.Verdict = d.worst
	if d.worst == nil {
		r.Run.Verdict = newVerdictReport(v)
	}
	for _, c := range d.changes {
		r.Run.Changes = append(r.Run.Changes, c.String())
	}
}

// environment are the environment variables in a fingerprint.
var environment = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "GODEBUG", "GOMAXPROCS"}

// fingerprint saves the settings of this run beside the journal, and prints what has
// changed since the run that this one is compared with.
func (d *doctor) fingerprint(ctx context.Context, o *options, b *book, cfg llmclient.Config, earlier *health.Fingerprint) error {
	if d == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fingerprintLimit)
	defer cancel()
	settings := health.Settings(cfg)
	if o.embedded() {
		delete(settings, "BaseURL") // a port that is another one each time
	}
	f := d.mon.Fingerprint(ctx, settings, health.Pick(os.LookupEnv, append(environment, o.env...)...))
	data, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		// Recognisable secrets are left out of it. Others may be in it.
		err = writeFileMode(b.root, path.Join(journalDir, fingerprintFile), append(data, '\n'), 0o600)
	}
	if earlier == nil {
		return err
	}
	changes := health.Compare(*earlier, f)
	d.mu.Lock()
	d.changes = changes
	d.mu.Unlock()
	if len(changes) == 0 {
		d.say("nothing has changed since %s: servers, settings and client are as they were", earlier.Taken.Format(time.DateTime))
		return err
	}
	d.say("changed since %s, the most suspicious first:", earlier.Taken.Format(time.DateTime))
	const most = 20
	for i, c := range changes {
		if i == most {
			d.say("  and %d more", len(changes)-i)
			break
		}
		d.say("  %s", c)
	}
	return err
}

// readFingerprint finds the fingerprint of an earlier run, by its folder or its
// file.
func readFingerprint(run string) (*health.Fingerprint, error) {
	info, err := os.Stat(run)
	file := run
	if err == nil && info.IsDir() {
		file = filepath.Join(run, journalDir, fingerprintFile)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(file)
	}
	switch {
	case file != run && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("-compare: there is nothing to compare with: %s holds no %s", run, path.Join(journalDir, fingerprintFile))
	case err != nil:
		return nil, fmt.Errorf("-compare: %w", err)
	}
	defer f.Close()
	p, err := health.ReadFingerprint(f)
	if err != nil {
		return nil, fmt.Errorf("-compare %s: %w", file, err)
	}
	return &p, nil
}
