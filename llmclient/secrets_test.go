package llmclient_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	fake "github.com/neverhang/neverhang/internal/fakeserver"
	"github.com/neverhang/neverhang/llmclient"
)

func TestAnEncodedKeyInTheQueryIsHidden(t *testing.T) {
	echo := func(q *fake.Request) fake.Step { return fake.Status(404, "no route for "+q.Path) }
	_ = echo
	inWorld(t, fake.Config{Script: fake.Always(fake.Status(404, `no route POST /v1/chat/completions?api-key=c2VjcmV0%2Bc2VjcmV0%2Fc2VjcmV0%3D%3D`))}, func(c *llmclient.Config) {
		c.BaseURL += "?api-key=c2VjcmV0%2Bc2VjcmV0%2Fc2VjcmV0%3D%3D"
	}, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.Error(t, err)
		assert.NotContains(t, format(err, w.events), "c2VjcmV0")
	})
}

func TestHalfAKeyIsASecretToo(t *testing.T) {
	key := "sk-0123456789abcdef0123456789abcdef"
	body := "bad key: " + strings.Repeat(" ", 4096-9-20) + key
	inWorld(t, fake.Config{Script: fake.Always(fake.Status(401, body))}, func(c *llmclient.Config) { c.APIKey = key }, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		require.Error(t, err)
		assert.NotContains(t, format(err, w.events), key[:12])
	})
}

func TestOtherKeysInTheClearAreToldAsWell(t *testing.T) {
	for name, cfg := range map[string]llmclient.Config{
		"X-Api-Key":                 {BaseURL: "http://gpu.example/v1", Header: http.Header{"X-Api-Key": {"sk-secret-123"}}},
		"Ocp-Apim-Subscription-Key": {BaseURL: "http://gpu.example/v1", Header: http.Header{"Ocp-Apim-Subscription-Key": {"sk-secret-123"}}},
		"query":                     {BaseURL: "http://gpu.example/v1?api-key=sk-secret-123"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			cfg.Model = "m"
			cfg.OnEvent = func(e llmclient.Event) {
				if e.Kind == llmclient.EventInsecure {
					n++
				}
			}
			c, err := llmclient.New(cfg)
			require.NoError(t, err)
			defer c.Close()
			assert.Equal(t, 1, n, "warnings")
		})
	}
	inWorld(t, fake.Config{Script: fake.Always(fake.Error(401, "", "", "bad key"))}, func(c *llmclient.Config) {
		c.Header = http.Header{"X-Api-Key": {"sk-secret-123"}}
	}, func(t *testing.T, w *world) {
		_, err := w.client.Chat(t.Context(), hello())
		assert.NotContains(t, err.Error(), "no key was sent")
	})
}

func TestAPasswordWithoutASchemeIsHidden(t *testing.T) {
	for _, u := range []string{"ann:hunter2@host:1/v1", "hunter2@host/v1", "//ann:hunter2@host/v1", "ann:hunter2:x@y@host/v1?key=hunter2#hunter2"} {
		cfg := llmclient.Config{BaseURL: u, Model: "m"}
		_, err := llmclient.New(cfg)
		require.Error(t, err, u)
		assert.NotContains(t, format(cfg, cfg.Endpoints, err), "hunter2", u)
		assert.NotContains(t, format(llmclient.Endpoint{BaseURL: u}), "hunter2", u)
	}
}
