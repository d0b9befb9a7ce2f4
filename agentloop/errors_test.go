package agentloop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/neverhang/neverhang/agentloop"
)

// The text of a result's error has the name of the package once, and its cause is
// still found in it.
func TestAnErrorSaysOnceWhereItIsFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := agentloop.NewGroup(agentloop.GroupConfig{
			Agents:      many(t, 2, agentloop.Config{Model: agentloop.ModelFunc(silent)}),
			MaxParallel: 1, Timeout: time.Minute,
		})
		require.NoError(t, err)
		rep := g.Run(t.Context())
		assert.EqualError(t, rep.Err, "agentloop: deadline of group passed after 1m0s")
		assert.EqualError(t, rep.Results[0].Err, `agentloop: agent "agent00" exhausted: deadline of group passed after 1m0s`)
		assert.EqualError(t, rep.Results[1].Err, `agentloop: agent "agent01" exhausted: never started: deadline of group passed after 1m0s`)
		for _, res := range rep.Results {
			var late *agentloop.TimeoutError
			require.ErrorAs(t, res.Err, &late)
			assert.Equal(t, "group", late.Of)
			assert.NotErrorIs(t, res.Err, context.DeadlineExceeded)
		}

		var none context.Context
		assert.EqualError(t, g.Run(none).Results[0].Err, `agentloop: agent "agent00" failed: never started: context is nil`)
	})
}
