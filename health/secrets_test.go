package health_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/health"
)

// Nothing that the package exports shows a key, a header or a password, however
// it is printed, logged or encoded.
func TestNothingShowsASecret(t *testing.T) {
	target := health.Target{
		Name: "gpu", URL: "http://user:hunter2@gpu.test:30000/v1?sig=hunter2", MetricsURL: "http://user:hunter2@gpu.test:29000/metrics?key=hunter2",
		APIKey: "hunter2-key", Header: http.Header{"X-Auth": {"hunter2"}}, Role: health.RolePrefill,
	}
	odd := []health.Target{{URL: "user:hunter2@gpu.test:1"}, {URL: "ftp://user:hunter2@h"}, {URL: "http:hunter2"}, {URL: "hunter2://h"}, {URL: "http://h:hunter2/%zz"}, {APIKey: "hunter2"}}
	good := target
	good.URL, good.MetricsURL = "http://gpu.test:30000/v1?sig=hunter2", "http://gpu.test:29000/metrics?key=hunter2"
	cfg := health.Config{Targets: []health.Target{good}, HTTPClient: &http.Client{Transport: &site{}}, PerMinute: 1}
	mon, err := health.New(cfg)
	require.NoError(t, err)
	defer mon.Close()
	srv, err := health.Detect(t.Context(), good, cfg.HTTPClient)
	require.NoError(t, err)
	type nested struct {
		Target health.Target
		Config *health.Config
		List   []health.Target
		Map    map[string]health.Target
	}
	all := map[string]any{
		"Target": target, "*Target": &target, "Targets": odd, "Config": cfg, "*Config": &cfg,
		"Config of odd ones": health.Config{Targets: append(odd, target)},
		"Monitor":            mon, "Server": srv, "Servers": mon.Servers(), "Verdict": mon.Check(t.Context()),
		"Fingerprint": mon.Fingerprint(t.Context(), health.Settings(cfg), nil), "Settings": health.Settings(cfg),
		"nested": nested{target, &cfg, odd, map[string]health.Target{"a": target}},
		"error":  func() error { _, err := health.New(health.Config{Targets: []health.Target{target}}); return err }(),
	}
	for name, v := range all {
		// Not %p and %w: there fmt asks no method, and go vet objects.
		for _, verb := range "vsdqxXtbcoOUeEfFgGT" {
			for _, flags := range []string{"", "+", "#", "-", " ", "0", "20", ".3", "+#"} {
				got := fmt.Sprintf("%"+flags+string(verb), v)
				hex := fmt.Sprintf("%x", "hunter2")
				assert.NotContains(t, got, "hunter2", "%s by %%%s%c", name, flags, verb)
				assert.NotContains(t, got, hex, "%s by %%%s%c", name, flags, verb)
			}
		}
		var out bytes.Buffer
		if b, err := json.Marshal(v); err == nil {
			out.Write(b)
		}
		if b, err := xml.Marshal(v); err == nil {
			out.Write(b)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("", "v", v)
		assert.NotContains(t, out.String(), "hunter2", "%s, encoded", name)
	}
	assert.Equal(t, `health.Target(http://gpu.test:30000/v1, name "gpu", metrics http://gpu.test:29000/metrics, role "prefill", a key or header)`, target.String())
	assert.Equal(t, "health.Config(http://gpu.test:30000/v1; ?)", health.Config{Targets: []health.Target{{URL: "http://gpu.test:30000/v1"}, {}}}.String())
	assert.Equal(t, "health.Monitor(1 servers)", mon.String())
}
