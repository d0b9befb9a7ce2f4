package llmclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestResolvingClocks(t *testing.T) {
	d := Clock{Suspect: 30 * time.Second, Limit: 10 * time.Minute}
	tests := map[string]struct {
		clock Clock
		want  bound
	}{
		"zero is the default":                         {Clock{}, bound{suspect: 30 * time.Second, limit: 10 * time.Minute, set: false}},
		"a limit above the suspect leaves it":         {Clock{Limit: time.Minute}, bound{suspect: 30 * time.Second, limit: time.Minute, set: true}},
		"a limit at the suspect moves it to its half": {Clock{Limit: 30 * time.Second}, bound{suspect: 15 * time.Second, limit: 30 * time.Second, set: true}},
		"a limit below the suspect too":               {Clock{Limit: 10 * time.Second}, bound{suspect: 5 * time.Second, limit: 10 * time.Second, set: true}},
		"a negative limit is none":                    {Clock{Limit: -1}, bound{suspect: 30 * time.Second, limit: 0, set: true}},
		"a negative suspect is none":                  {Clock{Suspect: -1}, bound{suspect: 0, limit: 10 * time.Minute, set: false}},
		"a suspect of one's own":                      {Clock{Suspect: time.Minute}, bound{suspect: time.Minute, limit: 10 * time.Minute, set: false}},
		"a suspect beyond the default limit lifts it": {Clock{Suspect: time.Hour}, bound{suspect: time.Hour, limit: time.Hour, set: false}},
		"both":    {Clock{Suspect: time.Second, Limit: 2 * time.Second}, bound{suspect: time.Second, limit: 2 * time.Second, set: true}},
		"neither": {Clock{Suspect: -1, Limit: -1}, bound{suspect: 0, limit: 0, set: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := tc.clock.resolve(d)
			got.suspectSet = false
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestGrowthMovesDefaultsOnly(t *testing.T) {
	small, large := load{promptBytes: 3 * 8000}, load{promptBytes: 3 * 48000}
	var c Clocks
	assert.Equal(t, bound{suspect: 30 * time.Second, limit: 10 * time.Minute, set: false}, c.bound(iFirstOutput, small))
	assert.Equal(t, bound{suspect: 130 * time.Second, limit: 1000 * time.Second, set: false}, c.bound(iFirstOutput, large))
	c.FirstOutput.Limit = time.Minute
	assert.Equal(t, time.Minute, c.bound(iFirstOutput, large).limit, "a limit that was set is exact")
}

// A step of a meter's life, at a time since its start.
type step struct {
	at    time.Duration
	what  string
	event func(*meter, moment)
}

func TestMeter(t *testing.T) {
	s, m := time.Second, time.Minute
	read := func(m *meter, now moment) { m.read(1, now) }
	tests := map[string]struct {
		clocks Clocks
		plain  bool
		load   load
		steps  []step
		clock  ClockName // that runs out
		at     time.Duration
	}{
		"nothing happens: only Call": {clock: ClockCall, at: 20 * m},
		"a dial":                     {steps: []step{{s, "connect", (*meter).connect}}, clock: ClockConnect, at: 11 * s},
		"a second address does not begin it anew": {steps: []step{{s, "connect", (*meter).connect}, {5 * s, "connect", (*meter).connect}},
			clock: ClockConnect, at: 11 * s},
		"a write that makes headway": {steps: []step{{s, "connected", (*meter).connected}, {20 * s, "wrote", (*meter).wrote}},
			clock: ClockSend, at: 50 * s},
		"sent": {steps: []step{{s, "connected", (*meter).connected}, {2 * s, "sent", (*meter).sent}}, clock: ClockFirstOutput, at: 10*m + 2*s},
		"bytes are no output": {steps: []step{{2 * s, "sent", (*meter).sent}, {m, "byte", read}, {5 * m, "byte", read}},
			clock: ClockFirstOutput, at: 10*m + 2*s},
		"an answer before the request was written": {steps: []step{{s, "connected", (*meter).connected}, {3 * s, "answered", (*meter).answered}, {5 * s, "sent", (*meter).sent}},
			clock: ClockFirstOutput, at: 10*m + 3*s},
		"output begins Gap anew": {load: load{tools: true}, steps: []step{{0, "sent", (*meter).sent}, {m, "output", (*meter).output}, {4 * m, "output", (*meter).output}},
			clock: ClockGap, at: 14 * m},
		"Gap is short where nobody has a reason": {steps: []step{{0, "sent", (*meter).sent}, {m, "output", (*meter).output}}, clock: ClockGap, at: 3 * m},
		"and long once reasoning is seen": {steps: []step{{0, "sent", (*meter).sent}, {m, "output", (*meter).output},
			{m, "reasons", func(m *meter, _ moment) { m.reasons() }}}, clock: ClockGap, at: 11 * m},
		"two pings arm nothing": {steps: []step{{0, "sent", (*meter).sent}, {s, "ping", (*meter).ping}, {2 * s, "ping", (*meter).ping}},
			clock: ClockFirstOutput, at: 10 * m},
		"three do": {steps: []step{{0, "sent", (*meter).sent}, {20 * s, "ping", (*meter).ping}, {40 * s, "ping", (*meter).ping}, {60 * s, "ping", (*meter).ping}},
			clock: ClockSilence, at: 60*s + 80*s},
		"a byte begins Silence anew": {steps: []step{{0, "sent", (*meter).sent}, {20 * s, "ping", (*meter).ping}, {40 * s, "ping", (*meter).ping}, {60 * s, "ping", (*meter).ping}, {70 * s, "byte", read}},
			clock: ClockSilence, at: 70*s + 80*s},
		"the longest interval counts": {steps: []step{{0, "sent", (*meter).sent}, {s, "ping", (*meter).ping}, {41 * s, "ping", (*meter).ping}, {42 * s, "ping", (*meter).ping}},
			clock: ClockSilence, at: 42*s + 160*s},
		"a pause stops the clocks": {steps: []step{{0, "sent", (*meter).sent}, {m, "output", (*meter).output}, {m, "pause", (*meter).pause}, {50 * m, "resume", (*meter).resume}},
			clock: ClockGap, at: 52 * m},
		"a plain answer":  {plain: true, steps: []step{{0, "connected", (*meter).connected}, {s, "sent", (*meter).sent}}, clock: ClockAttempt, at: 10 * m},
		"the end":         {steps: []step{{0, "sent", (*meter).sent}, {m, "output", (*meter).output}, {m, "finish", (*meter).finish}}, clock: ClockEnd, at: m + 5*s},
		"an error's body": {steps: []step{{0, "connected", (*meter).connected}, {s, "refused", (*meter).refused}}, clock: ClockEnd, at: 6 * s},
		"Call counts the present gap and the wait for the first output": {
			clocks: Clocks{Gap: Clock{Limit: -1}, FirstOutput: Clock{Limit: -1}},
			steps:  []step{{0, "sent", (*meter).sent}, {5 * m, "output", (*meter).output}, {10 * m, "output", (*meter).output}},
			clock:  ClockCall, at: 25 * m,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var m meter
			tc.clocks.bounds(tc.load, &m.bounds)
			m.start(time.Now(), tc.plain, true)
			for _, st := range tc.steps {
				out := m.check(atStart.Add(st.at)).out
				assert.Nil(t, out, "before %s at %v", st.what, st.at)
				st.event(&m, atStart.Add(st.at))
			}
			out := m.check(atStart.Add(tc.at - 1)).out
			assert.Nil(t, out, "one nanosecond early")
			out = m.check(atStart.Add(tc.at)).out
			if assert.NotNil(t, out) {
				assert.Equal(t, tc.clock, out.clock)
			}
			for at := m.due(); at < atStart.Add(tc.at); at = m.due() {
				// The suspicions and questions that come first.
				if f := m.check(at); len(f.told) == 0 && !f.ask || f.out != nil {
					t.Fatalf("due at %v, where nothing is", at.Sub(atStart))
				}
			}
			assert.Equal(t, atStart.Add(tc.at), m.due(), "when to look again")
		})
	}
}

func TestSuspicionIsToldOnceUntilTheClockBeginsAnew(t *testing.T) {
	var c Clocks
	var m meter
	c.bounds(load{}, &m.bounds)
	m.start(time.Now(), false, true)
	m.sent(atStart)
	told := m.check(atStart.Add(30*time.Second - 1)).told
	assert.Empty(t, told)
	told = m.check(atStart.Add(30 * time.Second)).told
	assert.Len(t, told, 1)
	assert.Equal(t, iFirstOutput, m.suspect)
	told = m.check(atStart.Add(time.Minute)).told
	assert.Empty(t, told)
	m.output(atStart.Add(time.Minute))
	assert.Equal(t, -1, m.suspect)
	told = m.check(atStart.Add(80 * time.Second)).told
	assert.Len(t, told, 1)
	m.output(atStart.Add(81 * time.Second))
	told = m.check(atStart.Add(101 * time.Second)).told
	assert.Len(t, told, 1, "a second gap is a second suspicion")
}
