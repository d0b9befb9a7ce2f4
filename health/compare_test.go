package health_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
	"github.com/neverhang/neverhang/internal/fakeserver/engine"
	"github.com/neverhang/neverhang/llmclient"
)

func TestCompare(t *testing.T) {
	start := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC)
	run := func(change func(*health.Fingerprint)) health.Fingerprint {
		f := health.Fingerprint{
			Neverhang: "v0.3.0", Go: "go1.26.8",
			Servers: []health.Server{
				{Name: "router", Role: health.RoleRouter, Kind: health.KindGateway, URL: "http://gw"},
				{Name: "prefill", Role: health.RolePrefill, Kind: health.KindSGLang, URL: "http://p", Started: start, Metrics: true, Version: "0.5.9", Info: map[string]string{
					"version": "0.5.9", "attention_backend": "fa3", "chunked_prefill_size": "8192", "random_seed": "1", "internal_states.0.last_gen_throughput": "12", "log_level": "info",
				}},
				{Name: "decode", Role: health.RoleDecode, Kind: health.KindSGLang, URL: "http://d", Started: start.Add(time.Minute), Metrics: true, Version: "0.5.9", Info: map[string]string{"version": "0.5.9", "attention_backend": "fa3"}},
			},
			Client: map[string]string{"Clocks.FirstOutput.Limit": "10m0s"},
			Env:    map[string]string{"NCCL_DEBUG": "WARN"},
		}
		if change != nil {
			change(&f)
		}
		return f
	}
	info := func(f *health.Fingerprint, server int, k, v string) { f.Servers[server].Info[k] = v }
	tests := map[string]struct {
		bad  func(*health.Fingerprint)
		want []string // the most suspicious first
	}{
		"nothing has changed": {nil, nil},
		"what changes by itself is left out": {func(f *health.Fingerprint) {
			info(f, 1, "random_seed", "2")
			info(f, 1, "internal_states.0.last_gen_throughput", "0")
		}, nil},
		"a knob of attention stands above all that else was touched": {func(f *health.Fingerprint) {
			info(f, 1, "attention_backend", "flashinfer")
			info(f, 1, "log_level", "debug")
			f.Client["Clocks.FirstOutput.Limit"] = "5m0s"
			f.Env["NCCL_DEBUG"] = "INFO"
		}, []string{
			"prefill: attention_backend was fa3, is flashinfer (how attention is computed: short prompts pass where long contexts are wrong, hang or never end) [a short benchmark would not show it]",
			"environment: NCCL_DEBUG was WARN, is INFO (libraries below the engine) [a short benchmark would not show it]",
			"client: Clocks.FirstOutput.Limit was 10m0s, is 5m0s (what happens when there is too much, or something fails) [a short benchmark would not show it]",
			"prefill: log_level was info, is debug",
		}},
		"one side restarted alone": {func(f *health.Fingerprint) { f.Servers[2].Started = start.Add(9 * time.Hour) }, []string{
			"decode: process started was 2026-11-29 08:01:00, is 2026-11-29 17:00:00 (it was restarted alone, and prefill was not: what that one holds belongs to the process that is gone) [a short benchmark would not show it]",
		}},
		"both restarted": {func(f *health.Fingerprint) {
			f.Servers[1].Started = start.Add(9 * time.Hour)
			f.Servers[2].Started = start.Add(9 * time.Hour)
		}, []string{
			"decode: process started was 2026-11-29 08:01:00, is 2026-11-29 17:00:00 (it was restarted)",
			"prefill: process started was 2026-11-29 08:00:00, is 2026-11-29 17:00:00 (it was restarted)",
		}},
		"another version": {func(f *health.Fingerprint) { info(f, 2, "version", "0.6.0"); f.Servers[2].Version = "0.6.0" }, []string{
			"decode: version was 0.5.9, is 0.6.0 (other software) [a short benchmark would not show it]",
		}},
		"a setting that was not there": {func(f *health.Fingerprint) { info(f, 1, "speculative_algorithm", "EAGLE") }, []string{
			"prefill: speculative_algorithm was not there, is EAGLE (answers that are guessed ahead, which helps or hurts by the text) [a short benchmark would not show it]",
		}},
		"a server that is gone": {func(f *health.Fingerprint) { f.Servers = f.Servers[:2] }, []string{
			"decode: server was http://d, is not there (it is not there any more, or did not answer)",
		}},
		"a variable that one run has not asked for": {func(f *health.Fingerprint) { f.Env = map[string]string{"HOME": "/root"} }, nil},
		"a variable that is not set any more": {func(f *health.Fingerprint) { f.Env["NCCL_DEBUG"] = "(not set)" }, []string{
			"environment: NCCL_DEBUG was WARN, is not there (libraries below the engine) [a short benchmark would not show it]",
		}},
		"secrets of a fingerprint that others made": {func(f *health.Fingerprint) {
			f.Env["NCCL_DEBUG"] = "http://user:hunter2@h:1"
			f.Client["APIKey"] = "hunter2"
		}, []string{
			"environment: NCCL_DEBUG was WARN, is http://(hidden)@h:1 (libraries below the engine) [a short benchmark would not show it]",
			"client: APIKey was not there, is (hidden)",
		}},
		"a process at another address": {func(f *health.Fingerprint) {
			f.Servers[2].URL, f.Servers[2].Started = "http://d:2", start.Add(9*time.Hour)
		}, nil},
		"a server under another name": {func(f *health.Fingerprint) { f.Servers[2].Name = "d2"; f.Servers[2].URL = "http://d2" }, nil},
		"our own version": {func(f *health.Fingerprint) { f.Neverhang = "v0.4.0" }, []string{
			"neverhang: version was v0.3.0, is v0.4.0 (other software) [a short benchmark would not show it]",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range health.Compare(run(nil), run(tt.bad)) {
				got = append(got, d.String())
			}
			assert.Equal(t, tt.want, got)
		})
	}
	t.Run("empty ones", func(t *testing.T) {
		assert.Empty(t, health.Compare(health.Fingerprint{}, health.Fingerprint{}))
	})
}

func TestFingerprint(t *testing.T) {
	split := engine.ServerConfig{
		Engine: engine.Config{Split: &engine.Split{}, Router: &engine.Router{}}, Version: "0.5.9",
		Info: map[string]any{"attention_backend": "fa3", "api_key": "sk-server", "hf_token": "hf_abc", "max_total_num_tokens": 138_240, "model_url": "s3://user:pass@bucket/x"},
	}
	play(t, setup{server: split, monitor: func(c *health.Config) { c.Targets[0].APIKey = "sk-ours" }}, func(r *rig) {
		client := health.Settings(llmclient.Config{
			BaseURL: "http://model.test/v1?key=sk-query", APIKey: "sk-ours", Model: "qwen",
			Clocks: llmclient.Clocks{FirstOutput: llmclient.Clock{Limit: 5 * time.Minute}},
			Retry:  llmclient.Retry{Attempts: 3},
		})
		env := health.Pick(func(name string) (string, bool) {
			v, ok := map[string]string{"NCCL_DEBUG": "INFO", "MY_API_KEY": "sk-env", "EMPTY": ""}[name]
			return v, ok
		}, "NCCL_DEBUG", "MY_API_KEY", "EMPTY", "UNSET")
		f := r.mon.Fingerprint(r.t.Context(), client, env)

		assert.Equal(t, map[string]string{
			"BaseURL": "http://model.test/v1?(hidden)", "APIKey": "(hidden)", "Model": "qwen", "Clocks.FirstOutput.Limit": "5m0s", "Retry.Attempts": "3",
		}, f.Client)
		assert.Equal(t, map[string]string{"NCCL_DEBUG": "INFO", "MY_API_KEY": "(hidden)", "EMPTY": "", "UNSET": "(not set)"}, f.Env)
		require.Len(t, f.Servers, 3, "the workers that the router has named are in it")
		for _, s := range f.Servers[1:] {
			assert.Equal(t, health.KindSGLang, s.Kind)
			assert.Equal(t, "0.5.9", s.Version)
			assert.Equal(t, "fa3", s.Info["attention_backend"])
			assert.Equal(t, "(hidden)", s.Info["hf_token"])
			assert.Equal(t, "s3://(hidden)@bucket/x", s.Info["model_url"])
			assert.Equal(t, "138240", s.Info["max_total_num_tokens"], "tokens that are no secret")
			assert.Equal(t, r.start.UTC(), s.Started)
		}
		b, err := json.Marshal(f)
		require.NoError(t, err)
		for _, s := range []string{"sk-", "hf_abc", "pass@"} {
			assert.NotContains(t, string(b), s)
		}
		back, err := health.ReadFingerprint(strings.NewReader(string(b)))
		require.NoError(t, err)
		assert.Empty(t, health.Compare(f, back))
		again := r.mon.Fingerprint(r.t.Context(), client, env)
		assert.Empty(t, health.Compare(f, again), "nothing changes by itself")
	})
	t.Run("one that is none", func(t *testing.T) {
		_, err := health.ReadFingerprint(strings.NewReader("{"))
		assert.ErrorContains(t, err, "health: fingerprint: ")
	})
}
