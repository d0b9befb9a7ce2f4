package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Two verdicts may be made at the same time. The one of the later view stays,
// whichever is kept last.
func TestAnOlderVerdictIsNotKept(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var m Monitor
	m.keepLocked(Verdict{State: StateHealthy, At: at})
	m.keepLocked(Verdict{State: StateWedgedEngine, At: at.Add(-time.Nanosecond)})
	assert.Equal(t, StateHealthy, m.verdict.State)
	assert.Nil(t, m.fault)
	m.keepLocked(Verdict{State: StateWedgedEngine, At: at})
	assert.Equal(t, StateWedgedEngine, m.verdict.State)
	assert.NotNil(t, m.fault)
}

// Which of the pages of an answer are about the server itself, and when its
// process started by our clock.
func TestReadPages(t *testing.T) {
	const (
		decode  = `sglang:num_running_reqs{engine_type="decode"} 3` + "\n"
		prefill = `sglang:num_running_reqs{engine_type="prefill"} 5` + "\n"
		router  = "smg_http_connections_active 7\n"
	)
	for name, tt := range map[string]struct {
		info  Server
		page  string
		ahead time.Duration
		want  Readings
		kind  Kind
	}{
		"one page":                             {Server{Kind: KindVLLM}, "vllm:num_requests_running 2\n", 0, Readings{MetricRunning: 2}, KindVLLM},
		"one of another kind: it was replaced": {Server{Kind: KindVLLM}, "sglang:num_running_reqs 2\n", 0, Readings{MetricRunning: 2}, KindSGLang},
		"a router's own among its engines'":    {Server{Kind: KindGateway, Role: RoleRouter}, router + decode + prefill, 0, Readings{MetricConnections: 7}, KindGateway},
		"the engine's role among others":       {Server{Kind: KindSGLang, Role: RoleDecode}, prefill + decode, 0, Readings{MetricRunning: 3}, KindSGLang},
		"none of them":                         {Server{Kind: KindVLLM}, prefill + decode, 0, nil, ""},
		"a clock that is ahead":                {Server{Kind: KindVLLM}, "process_start_time_seconds 1000\nvllm:num_requests_running 2\n", time.Minute, Readings{MetricRunning: 2, MetricStartTime: 940}, KindVLLM},
		"a clock that is far ahead":            {Server{Kind: KindVLLM}, "process_start_time_seconds 1000\nvllm:num_requests_running 2\n", time.Hour, Readings{MetricRunning: 2, MetricStartTime: 0}, KindVLLM},
		"a clock that is behind":               {Server{Kind: KindVLLM}, "process_start_time_seconds 1000\nvllm:num_requests_running 2\n", -time.Minute, Readings{MetricRunning: 2, MetricStartTime: 1060}, KindVLLM},
	} {
		t.Run(name, func(t *testing.T) {
			var m Monitor
			var out Sample
			m.read(&server{info: tt.info}, answer{body: []byte(tt.page), ahead: tt.ahead}, &out)
			assert.Equal(t, tt.want, out.Readings)
			assert.Equal(t, tt.kind, out.Kind)
		})
	}
}
