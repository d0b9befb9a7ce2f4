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
		"sglang-unified": {health.SGLang, health.RoleUnified, "qwen3-235b", r{
			health.Running: 3, health.Waiting: 2, health.PutOff: 0, health.KVUsage: 0.37, health.Throughput: 412.66,
			health.Requests: 911, health.Aborted: 17, health.Preempted: 2, health.PromptTokens: 5.4311e6, health.Generated: 812345,
			health.Computed: 2.33e6, health.Decoded: 812990, health.FirstTokens: 906, health.Steps: 811439, health.Finished: 894,
			health.StartTime: 1.79e9,
		}, []health.Metric{health.Inflight, health.Transferring, health.TransferFailed}},
		"sglang-unified-older": {health.SGLang, "", "qwen3-235b", r{
			health.Running: 3, health.Generated: 812345, health.Steps: 811439,
		}, []health.Metric{health.Computed, health.Decoded, health.StartTime}},
		"sglang-prefill": {health.SGLang, health.RolePrefill, "qwen3-235b", r{
			health.Running: 0, health.Bootstrap: 1, health.Inflight: 21, health.TransferFailed: 21, health.BootstrapFailed: 4,
		}, []health.Metric{health.Prealloc}},
		"sglang-decode": {health.SGLang, health.RoleDecode, "qwen3-235b", r{
			health.Running: 0, health.Prealloc: 5, health.Transferring: 4, health.Transfers: 204, health.TransferFailed: 0, health.Throughput: 0,
		}, []health.Metric{health.Inflight}},
		// Replicas are added up, ranks of one are the same thing twice, and the
		// fullest replica counts.
		"sglang-replicas": {health.SGLang, health.RoleUnified, "qwen3-235b", r{
			health.Running: 7, health.Generated: 1500, health.KVUsage: 0.9,
		}, nil},
		"vllm": {health.VLLM, "", "qwen3-235b", r{
			health.Running: 6, health.Waiting: 11, health.KVUsage: 0.93, health.Preempted: 12, health.Generated: 402113,
			health.Finished: 840, health.Aborted: 33, health.Rejected: 7, health.FirstTokens: 873, health.Steps: 401240, health.StartTime: 1.79e9,
		}, []health.Metric{health.Computed, health.PutOff}},
		"vllm-older": {health.VLLM, "", "qwen3-235b", r{
			health.KVUsage: 0.93, health.PutOff: 1, health.Steps: 401240,
		}, []health.Metric{health.Rejected}},
		// As another format has it: counters' types without _total, and exemplars.
		"vllm-openmetrics": {health.VLLM, "", "qwen3-235b", r{
			health.Running: 6, health.Preempted: 12, health.Generated: 402113, health.Finished: 840, health.Aborted: 33, health.FirstTokens: 873, health.Steps: 401240,
		}, nil},
		// As collectors spell them.
		"vllm-collected": {health.VLLM, "", "qwen3-235b", r{
			health.Running: 6, health.KVUsage: 0.93, health.PutOff: 1, health.Generated: 402113, health.Preempted: 12, health.Finished: 840, health.Steps: 401240,
		}, []health.Metric{health.Rejected}},
		"sglang-loads": {health.SGLang, health.RoleUnified, "qwen3-235b", r{
			health.Running: 3, health.Waiting: 2, health.KVUsage: 0.37, health.Requests: 911, health.Generated: 812345, health.Computed: 2.33e6, health.Decoded: 812990,
		}, nil},
		"tgi-totals": {health.TGI, "", "", r{health.Running: 16, health.Requests: 5120, health.Finished: 5099}, nil},
		"llamacpp": {health.LlamaCPP, "", "", r{
			health.Running: 2, health.Waiting: 1, health.PromptTokens: 91233, health.Generated: 20411, health.Steps: 20988, health.Throughput: 33.4,
		}, []health.Metric{health.KVUsage}},
		"llamacpp-older": {health.LlamaCPP, "", "", r{health.KVUsage: 0.42}, nil},
		"tgi": {health.TGI, "", "", r{
			health.Running: 16, health.Waiting: 4, health.Requests: 5120, health.Finished: 5099, health.FirstTokens: 5099,
		}, nil},
		"gateway": {health.Gateway, health.RoleRouter, "", r{
			health.Requests: 1203, health.Finished: 1101, health.Rejected: 88, health.Connections: 61, health.Active: 40,
			health.WorkersUp: 1, health.Workers: 2, health.TransferFailed: 21, health.Errors: 90,
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
		assert.Equal(t, []float64{7, 1}, []float64{pages[0].Readings[health.Running], pages[1].Readings[health.Running]})
	})
	t.Run("what stood before a broken line is read", func(t *testing.T) {
		pages, err := health.ReadMetrics([]byte("vllm:num_requests_running 3\nvllm:num_requests_waiting{ 4\nvllm:num_preemptions_total 5\n"))
		assert.ErrorContains(t, err, "health: page of metrics: text format parsing error in line 2")
		require.Len(t, pages, 1)
		assert.Equal(t, 3.0, pages[0].Readings[health.Running])
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
			if p.Kind == health.Unknown {
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
