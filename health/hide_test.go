package health

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNamesOfSecrets(t *testing.T) {
	for _, name := range []string{
		"api_key", "admin_api_key", "APIKey", "apikey", "api-key", "hf_token", "server.auth_token", "password", "PGPASSWORD", "MYSQL_PWD", "DB_PASS",
		"ssl_keyfile_password", "AWS_SECRET_ACCESS_KEY", "token", "keys.api_key.0", "MY_TOKEN", "TOKEN_2", "GITHUB_PAT", "SSH_KEY", "SIGNING_KEY_2",
		"NEXT_PUBLIC_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "credentials.user", "DSN", "SENTRY_DSN", "api_keys.0.1", "Retry.AccessToken", "PromptCacheKey",
	} {
		assert.Equal(t, hidden, hide(name, "hunter2"), name)
	}
	for _, name := range []string{
		"tokenizer_path", "eos_token", "special_tokens.0", "monkey", "kv_cache_dtype", "chat_template", "PATH", "PWD", "author", "NCCL_DEBUG", "model_path", "",
	} {
		assert.Equal(t, "hunter2", hide(name, "hunter2"), name)
	}
	for name, value := range map[string]string{
		"max_total_num_tokens": "138240", "num_key_value_heads": "8", "Limits.OutputTokens": "4096", "add_bos_token": "false", "skip_token": "null",
		"api_key": "", "require_password": "true",
	} {
		assert.Equal(t, value, hide(name, value), name)
	}
	assert.Equal(t, hidden, hide("password", "123456"), "digits are a password too")
}

func TestSecretsInsideOfValues(t *testing.T) {
	const secret = "hun" + "ter2"
	for name, c := range map[string]struct{ in, want string }{
		"a proxy":                    {"http://user:hunter2@h:1", "http://(hidden)@h:1"},
		"a proxy without a scheme":   {"user:hunter2@h:1", "(hidden)@h:1"},
		"a token alone as the user":  {"https://hunter2@h/x", "https://(hidden)@h/x"},
		"an odd password":            {"http://u:p/@,hunter2@h:1/x", "http://(hidden)@h:1/x"},
		"a password with a space":    {"http://u:hun ter2 hunter2@h", "http://(hidden)@h"},
		"a database":                 {"postgres://u:hunter2@h/db?sslmode=disable", "postgres://(hidden)@h/db?(hidden)"},
		"a database, the other way":  {"host=h user=u password=hunter2 dbname=d", "host=h user=u password=(hidden) dbname=d"},
		"a database, the third way":  {"u:hunter2@tcp(h:1)/db", "(hidden)@tcp(h:1)/db"},
		"several addresses":          {"http://a:1,http://u:hunter2@b:2", "http://(hidden)@b:2"},
		"a query":                    {"https://h/x?sig=hunter2&a=b", "https://h/x?(hidden)"},
		"a bearer":                   {"Authorization: Bearer hunter2", "Authorization: Bearer (hidden)"},
		"a bearer alone":             {"bearer hunter2", "bearer (hidden)"},
		"a basic login":              {"Basic aHVudGVyMg==hunter2", "Basic (hidden)"},
		"a flag":                     {"--port 1 --api-key hunter2 --tp 8", "--port 1 --api-key (hidden) --tp 8"},
		"a flag with =":              {"--api-key=hunter2 --max-tokens=8", "--api-key=(hidden) --max-tokens=8"},
		"JSON":                       {`{"hf_token": "hunter2 x", "port": 1}`, `{"hf_token": (hidden), "port": 1}`},
		"a connection string":        {"Endpoint=h;AccountKey=hunter2;Suffix=s", "Endpoint=h;AccountKey=(hidden);Suffix=s"},
		"a key of a well-known kind": {"x sk-hunter2hunter2 y", "x (hidden) y"},
		"a private key":              {"-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END", "(hidden)"},
		"nothing to hide":            {"http://h:1/v1, fa3 --tp 8 dtype=bfloat16 12:30", "http://h:1/v1, fa3 --tp 8 dtype=bfloat16 12:30"},
		"a name list":                {"localhost,10.0.0.0/8,.svc", "localhost,10.0.0.0/8,.svc"},
		"beyond what is kept of it":  {"http://u:" + strings.Repeat("hunter2", 200) + "@h", "http://(hidden)@h"},
	} {
		got := hide("X", c.in)
		assert.Equal(t, c.want, got, name)
		assert.NotContains(t, got, secret, name)
		assert.Equal(t, got, hide("X", got), "%s: it stays as it is", name)
	}
}

// Whichever way a value takes into a fingerprint, its secrets stay behind.
func TestEveryWayHides(t *testing.T) {
	const proxy = "http://user:hunter2@h:1"
	body, err := json.Marshal(map[string]any{"proxy": proxy, "nested": map[string]any{"MY_TOKEN": "hunter2", "list": []string{"Bearer hunter2"}}, proxy: 1})
	require.NoError(t, err)
	type settings struct {
		Proxy, MyToken string
		Proxies        []string
	}
	for way, got := range map[string]map[string]string{
		"flatten":  flatten(body),
		"Settings": Settings(settings{proxy, "hunter2", []string{proxy}}),
		"Pick": Pick(func(name string) (string, bool) {
			return map[string]string{"HTTPS_PROXY": proxy, "MY_TOKEN": "hunter2", "DB": "postgres://u:hunter2@h/db"}[name], true
		}, "HTTPS_PROXY", "MY_TOKEN", "DB"),
		"what is handed in": hideAll(map[string]string{"HTTPS_PROXY": proxy, "MY_TOKEN": "hunter2"}),
	} {
		b, err := json.Marshal(got)
		require.NoError(t, err)
		assert.NotContains(t, string(b), "hunter2", way)
		assert.Contains(t, string(b), "(hidden)@h:1", way)
	}
}
