package health_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
)

func TestReadMetrics(t *testing.T) {
	type r = health.Readings
	tests := map[string]struct {
		kind  health.Kind
		role  health.Role
		model string
		want  r // among others
		not   []health.Metric
	}{
		"sglang-unified": {health.KindSGLang, health.RoleUnified, "qwen3-235b", r{
			health.MetricRunning: 3, health.MetricWaiting: 2, health.MetricPutOff: 0, health.MetricKVUsage: 0.37, health.MetricThroughput: 412.66,
			health.MetricRequests: 911, health.MetricAborted: 17, health.MetricPreempted: 2, health.MetricPromptTokens: 5.4311e6, health.MetricGenerated: 812345,
			health.MetricComputed: 2.33e6, health.MetricDecoded: 812990, health.MetricFirstTokens: 906, health.MetricSteps: 811439, health.MetricFinished: 894,
			health.MetricStartTime: 1.79e9,
		}, []health.Metric{health.MetricInflight, health.MetricTransferring, health.MetricTransferFailed}},
		"sglang-unified-older": {health.KindSGLang, "", "qwen3-235b", r{
			health.MetricRunning: 3, health.MetricGenerated: 812345, health.MetricSteps: 811439,
		}, []health.Metric{health.MetricComputed, health.MetricDecoded, health.MetricStartTime}},
		"sglang-prefill": {health.KindSGLang, health.RolePrefill, "qwen3-235b", r{
			health.MetricRunning: 0, health.MetricBootstrap: 1, health.MetricInflight: 21, health.MetricTransferFailed: 21, health.MetricBootstrapFailed: 4,
		}, []health.Metric{health.MetricPrealloc}},
		"sglang-decode": {health.KindSGLang, health.RoleDecode, "qwen3-235b", r{
			health.MetricRunning: 0, health.MetricPrealloc: 5, health.MetricTransferring: 4, health.MetricTransfers: 204, health.MetricTransferFailed: 0, health.MetricThroughput: 0,
		}, []health.Metric{health.MetricInflight}},
		// Replicas are added up, ranks of one are the same thing twice, and the
		// fullest replica counts.
		"sglang-replicas": {health.KindSGLang, health.RoleUnified, "qwen3-235b", r{
			health.MetricRunning: 7, health.MetricGenerated: 1500, health.MetricKVUsage: 0.9,
		}, nil},
		"vllm": {health.KindVLLM, "", "qwen3-235b", r{
			health.MetricRunning: 6, health.MetricWaiting: 11, health.MetricKVUsage: 0.93, health.MetricPreempted: 12, health.MetricGenerated: 402113,
			health.MetricFinished: 840, health.MetricAborted: 33, health.MetricRejected: 7, health.MetricFirstTokens: 873, health.MetricSteps: 401240, health.MetricStartTime: 1.79e9,
		}, []health.Metric{health.MetricComputed, health.MetricPutOff}},
		"vllm-older": {health.KindVLLM, "", "qwen3-235b", r{
			health.MetricKVUsage: 0.93, health.MetricPutOff: 1, health.MetricSteps: 401240,
		}, []health.Metric{health.MetricRejected}},
		// As another format has it: counters' types without _total, and exemplars.
		"vllm-openmetrics": {health.KindVLLM, "", "qwen3-235b", r{
			health.MetricRunning: 6, health.MetricPreempted: 12, health.MetricGenerated: 402113, health.MetricFinished: 840, health.MetricAborted: 33, health.MetricFirstTokens: 873, health.MetricSteps: 401240,
		}, nil},
		// As collectors spell them.
		"vllm-collected": {health.KindVLLM, "", "qwen3-235b", r{
			health.MetricRunning: 6, health.MetricKVUsage: 0.93, health.MetricPutOff: 1, health.MetricGenerated: 402113, health.MetricPreempted: 12, health.MetricFinished: 840, health.MetricSteps: 401240,
		}, []health.Metric{health.MetricRejected}},
		"sglang-loads": {health.KindSGLang, health.RoleUnified, "qwen3-235b", r{
			health.MetricRunning: 3, health.MetricWaiting: 2, health.MetricKVUsage: 0.37, health.MetricRequests: 911, health.MetricGenerated: 812345, health.MetricComputed: 2.33e6, health.MetricDecoded: 812990,
		}, nil},
		"tgi-totals": {health.KindTGI, "", "", r{health.MetricRunning: 16, health.MetricRequests: 5120, health.MetricFinished: 5099}, nil},
		"llamacpp": {health.KindLlamaCPP, "", "", r{
			health.MetricRunning: 2, health.MetricWaiting: 1, health.MetricPromptTokens: 91233, health.MetricGenerated: 20411, health.MetricSteps: 20988, health.MetricThroughput: 33.4,
		}, []health.Metric{health.MetricKVUsage}},
		"llamacpp-older": {health.KindLlamaCPP, "", "", r{health.MetricKVUsage: 0.42}, nil},
		"tgi": {health.KindTGI, "", "", r{
			health.MetricRunning: 16, health.MetricWaiting: 4, health.MetricRequests: 5120, health.MetricFinished: 5099, health.MetricFirstTokens: 5099,
		}, nil},
		"gateway": {health.KindGateway, health.RoleRouter, "", r{
			health.MetricRequests: 1203, health.MetricFinished: 1101, health.MetricRejected: 88, health.MetricConnections: 61, health.MetricActive: 40,
			health.MetricWorkersUp: 1, health.MetricWorkers: 2, health.MetricTransferFailed: 21, health.MetricErrors: 90,
		}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			require.NoError(t, err)
			pages, err := health.ReadMetrics(page)
			require.NoError(t, err)
			require.Len(t, pages, 1)
			p := pages[0]
			assert.Equal(t, tt.kind, p.Kind)
			assert.Equal(t, tt.role, p.Role)
			assert.Equal(t, tt.model, p.Labels["model_name"])
			for m, want := range tt.want {
				got, ok := p.Readings[m]
				assert.True(t, ok, "no %s", m)
				assert.InDelta(t, want, got, 1e-9, "%s", m)
			}
			for _, m := range tt.not {
				assert.NotContains(t, p.Readings, m)
			}
		})
	}
	t.Run("a router's page of several engines", func(t *testing.T) {
		page, err := os.ReadFile("testdata/gateway-engines.txt")
		require.NoError(t, err)
		pages, err := health.ReadMetrics(page)
		require.NoError(t, err)
		require.Len(t, pages, 2)
		assert.Equal(t, []health.Role{health.RoleDecode, health.RolePrefill}, []health.Role{pages[0].Role, pages[1].Role})
		assert.Equal(t, []float64{7, 1}, []float64{pages[0].Readings[health.MetricRunning], pages[1].Readings[health.MetricRunning]})
	})
	t.Run("what stood before a broken line is read", func(t *testing.T) {
		pages, err := health.ReadMetrics([]byte("vllm:num_requests_running 3\nvllm:num_requests_waiting{ 4\nvllm:num_preemptions_total 5\n"))
		assert.ErrorContains(t, err, "health: page of metrics: text format parsing error in line 2")
		require.Len(t, pages, 1)
		assert.Equal(t, 3.0, pages[0].Readings[health.MetricRunning])
	})
	t.Run("numbers that are none", func(t *testing.T) {
		pages, err := health.ReadMetrics([]byte("vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\nvllm:num_preemptions_total -5\n"))
		require.NoError(t, err)
		require.Len(t, pages, 1)
		assert.Empty(t, pages[0].Readings)
	})
	t.Run("other things", func(t *testing.T) {
		for _, page := range []string{"", "\n", "<html>no such page</html>", `{"detail":"Not Found"}`, "go_goroutines 7\n"} {
			pages, _ := health.ReadMetrics([]byte(page))
			assert.Empty(t, pages, "%q", page)
		}
	})
}

func FuzzReadMetrics(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txt")
	require.NoError(f, err)
	require.NotEmpty(f, names)
	for _, name := range names {
		page, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(page)
	}
	f.Add([]byte("sglang:num_running_reqs{tp_rank=\"0\"} 1e309\n# TYPE sglang:token_usage histogram\nsglang:token_usage_count 1"))
	f.Fuzz(func(t *testing.T, page []byte) {
		pages, err := health.ReadMetrics(page)
		if err != nil && !strings.HasPrefix(err.Error(), "health: ") {
			t.Errorf("error %q names no package", err)
		}
		for _, p := range pages {
			if p.Kind == health.KindUnknown {
				t.Error("a page of nothing known")
			}
			for m, v := range p.Readings {
				if !(v >= 0) {
					t.Errorf("%s is %v", m, v)
				}
			}
		}
	})
}

func BenchmarkReadMetrics(b *testing.B) {
	page, err := os.ReadFile("testdata/sglang-unified.txt")
	require.NoError(b, err)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := health.ReadMetrics(page); err != nil {
			b.Fatal(err)
		}
	}
}
