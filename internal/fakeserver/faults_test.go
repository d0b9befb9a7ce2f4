package fakeserver_test

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/chat"
	fs "github.com/neverhang/neverhang/internal/fakeserver"
)

func TestParseFaults(t *testing.T) {
	good := map[string]string{
		"":                                  "none",
		"none":                              "none",
		" hang=0.1 , stall = 0.05":          "hang=0.1,stall=0.05",
		"stall=0.05,hang=0.1":               "hang=0.1,stall=0.05",
		"hang=0":                            "none",
		"hang=1":                            "hang=1",
		"429=0.1,503=0.05,outage=5s@3s":     "429=0.1,503=0.05,outage=5s@3s",
		"outage=5s":                         "outage=5s@0s",
		"outage=1s@1s,outage=2s@10s,slow=1": "slow=1,outage=1s@1s,outage=2s@10s",
		"default":                           fs.DefaultFaults().String(),
	}
	for spec, want := range good {
		f, err := fs.ParseFaults(spec)
		require.NoError(t, err, spec)
		assert.Equal(t, want, f.String())
		again, err := fs.ParseFaults(f.String())
		require.NoError(t, err)
		assert.Equal(t, f.String(), again.String())
	}
	bad := map[string]string{
		"hung=0.1":          `fakeserver: faults: "hung" is not known; there are hang, headers, stall, `,
		"hang":              `fakeserver: faults: "hang" has no rate, want hang=0.1 for one in ten`,
		"hang=often":        `fakeserver: faults: "hang" has the rate "often", want a number from 0 to 1`,
		"hang=-0.1":         `fakeserver: faults: "hang" has the rate "-0.1", want a number from 0 to 1`,
		"hang=NaN":          `fakeserver: faults: "hang" has the rate "NaN", want a number from 0 to 1`,
		"hang=1.1":          `fakeserver: faults: "hang" has the rate "1.1", want a number from 0 to 1`,
		"hang=.6,stall=.6":  `fakeserver: faults: the rates add up to 1.2, want at most 1`,
		"hang=.1,hang=.1":   `fakeserver: faults: "hang" is there twice`,
		"hang=.1,,stall=.1": `fakeserver: faults: "" is not known; there are `,
		"outage":            `fakeserver: faults: "outage": "" is no outage, want one like 5s@3s: down for 5s, 3s after the start`,
		"outage=5@3":        `fakeserver: faults: "outage=5@3": "5@3" is no outage`,
		"outage=-5s@3s":     `fakeserver: faults: "outage=-5s@3s": "-5s@3s" is no outage`,
	}
	for spec, want := range bad {
		f, err := fs.ParseFaults(spec)
		require.Error(t, err, spec)
		assert.True(t, strings.HasPrefix(err.Error(), want), "%s: %v", spec, err)
		assert.Equal(t, "none", f.String())
	}
	_, err := fs.ParseFaults("x=1")
	for _, name := range append(fs.FaultNames(), "outage") {
		assert.Contains(t, err.Error(), name)
	}
}

// The same seed, agent and number give the same fault; over many, each comes
// about as often as it should.
func TestFaultsAreDealtBySeed(t *testing.T) {
	f := fs.DefaultFaults()
	count := map[string]int{}
	const agents, turns = 1000, 20
	differ := 0
	for a := range agents {
		agent := fmt.Sprint("agent", a)
		for n := 1; n <= turns; n++ {
			got := f.Draw(1, agent, n)
			require.Equal(t, got, f.Draw(1, agent, n))
			if got != f.Draw(2, agent, n) {
				differ++
			}
			count[got]++
		}
	}
	assert.Greater(t, differ, agents*turns/4, "another seed deals otherwise")
	for _, entry := range strings.Split(f.String(), ",") {
		var name string
		var rate float64
		if _, err := fmt.Sscanf(strings.Replace(entry, "=", " ", 1), "%s %g", &name, &rate); err != nil || name == "outage" {
			continue
		}
		n := agents * turns * rate
		assert.InDelta(t, n, count[name], 5*math.Sqrt(n), name)
	}
	assert.Greater(t, f.Share(), 1.0/3)
	assert.Less(t, f.Share(), 0.5)
}

// By default every kind there is comes up.
func TestDefaultFaultsKnowAll(t *testing.T) {
	spec := fs.DefaultFaults().String()
	for _, name := range append(fs.FaultNames(), "outage") {
		assert.Contains(t, spec, name+"=")
	}
}

// However the requests are mixed, each agent meets the same faults.
func TestFaultsDoNotFollowArrival(t *testing.T) {
	f, err := fs.ParseFaults("500=0.2,502=0.2,503=0.2,empty=0.2")
	require.NoError(t, err)
	play := func(order []int) map[string][]string {
		got := map[string][]string{}
		inMemory(t, fs.Config{Script: fs.Always(fs.Answer("ok")), Faults: f, Seed: 7}, func(t *testing.T, srv *fs.Server) {
			tr := transport(t, srv)
			for _, a := range order {
				ask(t, tr, srv, fmt.Sprintf(`{"stream":true,"messages":[{"role":"user","content":"agent %d"}]}`, a), time.Hour)
			}
			for _, r := range srv.Requests() {
				got[r.Agent] = append(got[r.Agent], r.Fault)
			}
			n := 0
			for _, r := range srv.Requests() {
				if r.Fault != "" {
					n++
				}
			}
			assert.Equal(t, n, srv.Stats().FaultCount())
			assert.Positive(t, n)
		})
		return got
	}
	one := play([]int{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3})
	two := play([]int{3, 2, 1, 1, 2, 3, 3, 2, 1, 3, 2, 1})
	assert.Len(t, one, 3)
	assert.Equal(t, one, two)
}

// whole reports what a careful client makes of a reply: the answer, or why
// there is none.
func whole(s seen) (string, error) {
	switch {
	case s.silent:
		return "", fmt.Errorf("silent")
	case s.err != nil:
		return "", s.err
	case s.status != 200:
		return "", fmt.Errorf("status %d", s.status)
	case !strings.HasPrefix(s.header.Get("Content-Type"), "text/event-stream"):
		return "", fmt.Errorf("type %s", s.header.Get("Content-Type"))
	}
	var a chat.Assembler
	for line := range strings.Lines(s.body) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || strings.HasPrefix(data, "[DONE]") || strings.HasPrefix(data, `{"type":"ping"`) {
			continue
		}
		ch, err := chat.ParseChunk([]byte(data))
		if err != nil {
			return "", err
		}
		if ch.Error != nil {
			return "", fmt.Errorf("server: %s", ch.Error.Message)
		}
		a.Add(ch)
	}
	r := a.Response()
	if r.FinishReason == "" || r.FinishReason.Failed() {
		return "", fmt.Errorf("finish %q", r.FinishReason)
	}
	return r.Message.Content, nil
}

// Each fault keeps the client from a whole answer, whatever its luck, and each
// slow reply is one. What never ends by itself is cut by the client's patience.
func TestEachFault(t *testing.T) {
	never := []string{"hang", "headers", "stall", "pings", "endless"}
	slow := []string{"slow", "late"}
	const answer = "a healthy answer of several words that is not short at all"
	for _, name := range fs.FaultNames() {
		t.Run(name, func(t *testing.T) {
			f, err := fs.ParseFaults(name + "=1")
			require.NoError(t, err)
			inMemory(t, fs.Config{Script: fs.Always(fs.Answer(answer)), Faults: f}, func(t *testing.T, srv *fs.Server) {
				const n = 12
				for range n {
					tr := transport(t, srv)
					patience := time.Minute
					if name == "pings" || name == "endless" {
						// A patience that bytes do not renew.
						s := cutAfter(t, tr, srv, 300*time.Millisecond)
						_, err := whole(s)
						assert.Error(t, err)
						continue
					}
					s := ask(t, tr, srv, streamBody, patience)
					text, err := whole(s)
					if slices.Contains(slow, name) {
						assert.NoError(t, err)
						assert.Equal(t, answer, text)
						assert.Positive(t, s.took)
						assert.Less(t, s.took, 2*time.Second)
						continue
					}
					assert.Error(t, err)
					assert.Equal(t, slices.Contains(never, name), s.silent)
				}
				stats := srv.Stats()
				want := map[string]int{name: n}
				if slices.Contains(slow, name) {
					assert.Equal(t, want, stats.Slowed)
					assert.Zero(t, stats.FaultCount())
				} else {
					assert.Equal(t, want, stats.Faults)
					assert.Empty(t, stats.Slowed)
				}
			})
		})
	}
}

// cutAfter asks and leaves after a time, whatever came.
func cutAfter(t *testing.T, rt http.RoundTripper, srv *fs.Server, d time.Duration) seen {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.BaseURL()+"/chat/completions", strings.NewReader(streamBody))
	require.NoError(t, err)
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	stop := time.AfterFunc(d, func() { _ = resp.Body.Close() })
	defer stop.Stop()
	b, err := io.ReadAll(resp.Body)
	assert.Error(t, err, "it goes on for ever")
	return seen{status: resp.StatusCode, header: resp.Header, body: string(b), err: err}
}

// A 429 comes with each form of Retry-After, all short.
func TestThrottleForms(t *testing.T) {
	f, err := fs.ParseFaults("429=1")
	require.NoError(t, err)
	inMemory(t, fs.Config{Script: fs.Always(fs.Answer("ok")), Faults: f}, func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		forms := map[string]bool{}
		for range 200 {
			s := ask(t, tr, srv, streamBody, time.Hour)
			require.Equal(t, 429, s.status)
			forms[s.header.Get("Retry-After")+"|"+s.header.Get("Retry-After-Ms")] = true
		}
		now := time.Now().UTC()
		for _, form := range []string{"0.2|", "1|", "|150", "-1|", "|",
			now.Add(time.Second).Format(http.TimeFormat) + "|", now.Add(-time.Hour).Format(http.TimeFormat) + "|"} {
			assert.Contains(t, forms, form)
		}
		assert.Len(t, forms, 7)
	})
}

// During an outage nobody gets in, and who is in gets a 503.
func TestOutage(t *testing.T) {
	f, err := fs.ParseFaults("outage=5s@3s")
	require.NoError(t, err)
	inMemory(t, fs.Config{Script: fs.Always(fs.Answer("ok")), Faults: f}, func(t *testing.T, srv *fs.Server) {
		tr := transport(t, srv)
		at := func(d time.Duration) seen {
			time.Sleep(d - time.Since(srv.Requests()[0].Arrived))
			return ask(t, tr, srv, streamBody, time.Hour)
		}
		require.Equal(t, 200, ask(t, tr, srv, streamBody, time.Hour).status)
		require.Equal(t, 200, at(3*time.Second-1).status)
		require.Equal(t, 503, at(3*time.Second).status)
		assert.Error(t, at(4*time.Second).err)
		assert.Error(t, at(8*time.Second-1).err)
		require.Equal(t, 200, at(8*time.Second).status)
		assert.Equal(t, map[string]int{"outage": 3}, srv.Stats().Faults)
	})
}

// With four tries, a client gets through the default faults nearly always.
func TestDefaultFaultsCanBeSurvived(t *testing.T) {
	f, err := fs.ParseFaults(strings.Replace(fs.DefaultFaults().String(), ",outage=2s@3s", "", 1))
	require.NoError(t, err)
	inMemory(t, fs.Config{Script: fs.Always(fs.Answer("the answer to all of it")), Faults: f, Seed: 3}, func(t *testing.T, srv *fs.Server) {
		const calls = 100
		var mu sync.Mutex
		failed := 0
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				tr := transport(t, srv)
				body := fmt.Sprintf(`{"stream":true,"messages":[{"role":"user","content":"agent %d"}]}`, i)
				for range 4 {
					s := ask2(t, tr, srv, body, time.Second)
					if _, err := whole(s); err == nil {
						return
					}
				}
				mu.Lock()
				defer mu.Unlock()
				failed++
			})
		}
		wg.Wait()
		assert.Less(t, failed, calls/10)
		assert.Greater(t, len(slices.Collect(maps.Keys(srv.Stats().Faults))), 12)
	})
}

// ask2 asks with a bound for the whole answer.
func ask2(t *testing.T, rt http.RoundTripper, srv *fs.Server, body string, d time.Duration) seen {
	req, err := http.NewRequest(http.MethodPost, srv.BaseURL()+"/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	c := http.Client{Transport: rt, Timeout: d}
	resp, err := c.Do(req)
	if err != nil {
		return seen{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return seen{status: resp.StatusCode, header: resp.Header, body: string(b), err: err}
}
