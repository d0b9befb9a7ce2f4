package llmclient

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUserAgentNamesTheVersion(t *testing.T) {
	name, version, ok := strings.Cut(userAgent(), "/")
	assert.True(t, ok)
	assert.Equal(t, "neverhang", name)
	assert.NotEmpty(t, version)
	assert.NotEqual(t, "0.1", version)
	assert.NotContains(t, version, "(")
}
