package llmclient

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Clients are closed to make room, but none that a request is about to use; and
// what goes leaves room among the accounts of its base URL.
func TestTransportMakesRoom(t *testing.T) {
	tr, err := NewTransport(Config{})
	require.NoError(t, err)
	get := func(host string, account uint64) *behind {
		b, _, err := tr.clientOf(&url.URL{Scheme: "http", Host: host}, account, nil)
		require.NoError(t, err)
		return b
	}
	held := get("a", 1)
	for i := range uint64(70) {
		tr.release(get("a", i+2))
	}
	assert.Equal(t, maxAccounts, tr.accounts["http://a"])
	for i := range maxTargets {
		tr.release(get(fmt.Sprintf("host-%d", i), 1))
	}
	assert.Len(t, tr.behind, maxTargets)
	assert.Equal(t, 1, tr.accounts["http://a"], "what is held stays")
	assert.Same(t, held, get("a", 1))
	mine := get("a", 99)
	assert.NotSame(t, mine, get("a", 100), "there is room for accounts of their own again")
	tr.release(held)
	tr.release(held)
	tr.release(mine)
	for i := range maxTargets {
		tr.release(get(fmt.Sprintf("other-%d", i), 1))
	}
	assert.NotContains(t, tr.behind, target{base: "http://a", account: 1})
	assert.Equal(t, 1, tr.accounts["http://a"], "account 100, which has not been released")
	require.NoError(t, tr.Close())
}
