package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
)

func TestIncidentsAreAnnounced(t *testing.T) {
	for name, want := range map[string]string{
		"abort-storm":     "abort-storm comes 10s into the run, and heals by itself after 6s; what it left behind may take longer",
		"partial-restart": "partial-restart comes 10s into the run, and does not heal by itself",
		"outage-recovery": "outage-recovery comes 10s into the run, and heals by itself after 1m0s; what it left behind may take longer",
		"rate-limited":    "rate-limited is there from the beginning, and stays",
	} {
		o, err := parseOptions([]string{"-incident", name}, nil)
		require.NoError(t, err)
		f, err := startOffline(o)
		require.NoError(t, err)
		assert.Equal(t, want, f.befall.announce())
		f.close()
	}
}

func TestIncidentsBeginAndEndWithALine(t *testing.T) {
	for name, c := range map[string]struct {
		befall happening
		lasts  time.Duration // of the run
		want   []string
	}{
		"it heals":               {happening{name: "x", from: 10 * time.Second, until: 16 * time.Second}, time.Minute, []string{"10s the incident begins: x", "16s the incident is over: x"}},
		"it does not":            {happening{name: "x", from: 10 * time.Second}, time.Minute, []string{"10s the incident begins: x"}},
		"it is there anyway":     {happening{name: "x", always: true}, time.Minute, nil},
		"the run ends in it":     {happening{name: "x", from: 10 * time.Second, until: 16 * time.Second}, 16*time.Second - 1, []string{"10s the incident begins: x"}},
		"the run ends before it": {happening{name: "x", from: 10 * time.Second}, 10*time.Second - 1, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.befall.start = time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), c.lasts)
			defer cancel()
			var got []string
			c.befall.watch(ctx, func(format string, args ...any) {
				got = append(got, fmt.Sprintf("%s %s", time.Since(c.befall.start), fmt.Sprintf(format, args...)))
			})
			assert.Equal(t, c.want, got, name)
		})
	}
}

func TestWhatWasSaidOfAnIncident(t *testing.T) {
	start := time.Date(2026, 2, 16, 3, 47, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	short := happening{start: start, from: 10 * time.Second, until: 14*time.Second - 1}
	long := happening{start: start, from: 10 * time.Second}
	for name, c := range map[string]struct {
		befall happening
		said   []saying
		ended  time.Duration
		want   string
	}{
		"something":        {long, []saying{{at(18 * time.Second), health.StateWedgedEngine}, {at(40 * time.Second), health.StateRecovered}}, time.Minute, `"wedged engine" after 8s, "recovered" after 30s`},
		"it was too short": {short, nil, time.Minute, "nothing: it was over before the second sample"},
		"it never came":    {long, nil, 10*time.Second - 1, "nothing: the run ended before it began"},
		"the run ended":    {long, nil, 14*time.Second - 1, "nothing: the run ended before the second sample"},
		"it passed":        {long, nil, 14 * time.Second, "nothing: calls were answered all the while, or too few were made to tell"},
	} {
		assert.Equal(t, c.want, c.befall.verdict(c.said, at(c.ended), 2*time.Second), name)
	}

	d := &doctor{say: func(string, ...any) {}, put: func(string) {}}
	for i, s := range []health.State{health.StateWedgedEngine, health.StateHealthy, health.StateLost, health.StateLost, health.StateRecovered} {
		d.told(health.Verdict{State: s, At: at(time.Duration(i) * time.Second)})
	}
	assert.Equal(t, []saying{{at(2 * time.Second), health.StateLost}, {at(4 * time.Second), health.StateRecovered}}, d.saidSince(at(time.Second)))
}

// What the server is like is left out of the summary where nothing is known of
// it, and the way on comes last.
func TestSummaryOfAnEarlyEnd(t *testing.T) {
	summary := func(change func(*report)) string {
		r := sampleReport()
		r.goOn = "sessionbible -resume"
		r.Run.Verdict = &verdictReport{State: "cannot tell", Confidence: "low", Evidence: []string{"no call is in flight"}}
		change(r)
		var b bytes.Buffer
		r.summary(&b)
		return b.String()
	}
	early := summary(func(r *report) {})
	assert.NotContains(t, early, "the server:")
	assert.NotContains(t, early, "to go on")
	assert.Contains(t, summary(func(r *report) { r.Run.Verdict.calls = 1 }), "  the server: cannot tell (low confidence): no call is in flight\n")
	interrupted := summary(func(r *report) {
		r.Run.ExitCode, r.Run.Incident, r.Run.IncidentSaid = exitInterrupted, orNull("overload"), orNull("nothing: it was over")
	})
	assert.Contains(t, interrupted, "  said of overload: nothing: it was over\n")
	assert.Regexp(t, "\n  to go on: sessionbible -resume\n$", interrupted)
}

func TestGoingOnSaysWhereItStands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bible")
	s := conversation("user: please mend the parser")
	o := &options{out: dir, incident: "overload"}
	plan := planArticles(s, 0)
	var out bytes.Buffer
	say := newPrinter(&out)
	b := newBook(dir)
	_, err := b.open(s, len(plan), o.incident, time.Now())
	require.NoError(t, err)
	_, err = b.save(newPage(s, plan[0], "# One\n\ntext", "m", time.Now()), nav{})
	require.NoError(t, err)
	require.NoError(t, b.close())

	o.resume, o.incident = true, ""
	again := newBook(dir)
	require.NoError(t, openBook(o, s, plan, again, say))
	require.NoError(t, again.close())
	say.close()
	assert.Equal(t, "going on: 1 of 1 are done\nthe book was begun with -incident overload; this run plays none\n", out.String())

	typo := filepath.Join(t.TempDir(), "typo")
	_, err = newBook(typo).reopen(s, 1)
	assert.EqualError(t, err, "there is no book in "+typo+" to go on with")
	assert.NoDirExists(t, typo, "looking makes no folder")
}
