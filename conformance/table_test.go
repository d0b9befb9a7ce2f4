package conformance_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pair is what one call came to without our Transport and with it.
type pair struct {
	cell          cell // with
	without, with result
}

// TestTable fills the table, holds the right half of it to what callers are
// owed, and the one in README.md to both. Run it with -v to see it.
func TestTable(t *testing.T) {
	var table []pair
	for _, sdk := range sdks {
		t.Run(sdk.name, func(t *testing.T) {
			for _, f := range faults {
				t.Run(f.name, func(t *testing.T) {
					for _, m := range modes {
						c := cell{sdk: sdk, mode: m, fault: f, under: true}
						p := pair{cell: c, with: c.run(t)}
						c.under = false
						p.without = c.run(t)
						p.check(t)
						table = append(table, p)
					}
				})
			}
		})
	}
	text := render(table)
	t.Log("\n" + text)
	if len(table) == len(sdks)*len(faults)*len(modes) { // unless -run has left out some
		readme(t, "table", text)
		claimed(t, table)
	}
}

// check holds a pair to what is owed, or to its exception.
func (p pair) check(t *testing.T) {
	t.Helper()
	c := p.cell
	if p.with.verdict == absent {
		return
	}
	good := slices.Contains(c.owed(), p.with.verdict) && !p.worse()
	switch n := c.exception(); {
	case n == 0 && !good:
		t.Errorf("%s: %v with the Transport after %v, want one of %v; without it: %v\nanswer: %.200v\nerror: %v",
			c.mode, p.with.verdict, p.with.after, c.owed(), p.without.verdict, p.with.got, p.with.err)
	case n != 0 && good:
		t.Errorf("%s: %v with the Transport, which is as it should be; take it out of the exceptions: %s",
			c.mode, p.with.verdict, exceptions[n-1].why)
	}
}

// worse says that the SDK alone would have come through.
func (p pair) worse() bool { return p.without.verdict == ok && p.with.verdict != ok }

// TestOwnersOfRetries shows what becomes of a call to a server that never
// answers if the SDK repeats by itself what the Transport has given up, and if
// it does not.
func TestOwnersOfRetries(t *testing.T) {
	var table []owners
	for _, sdk := range sdks {
		t.Run(sdk.name, func(t *testing.T) {
			o := owners{name: sdk.name}
			for i, name := range []string{"no head, every time", "503, every time"} {
				c := cell{sdk: sdk, mode: mode{streamed: true}, fault: faultNamed(t, name), under: true, patience: day}
				o.left[i] = c.run(t)
				c.quiet = true
				o.off[i] = c.run(t)
				assert.Equal(t, failed, o.left[i].verdict, "%s, by default", name)
				assert.Equal(t, failed, o.off[i].verdict, "%s, retries off", name)
				assert.LessOrEqual(t, o.off[i].after.Truncate(time.Second), callLimit, "%s, retries off", name)
				assert.LessOrEqual(t, o.off[i].requests, attempts, "%s, retries off", name)
				assert.Zero(t, o.off[i].above, "%s: told of retries that are off", name)
			}
			assert.Equal(t, sdk.tells, o.left[0].above > 0, "told that the SDK retries by itself")
			table = append(table, o)
		})
	}
	text := renderOwners(table)
	t.Log("\n" + text)
	if len(table) == len(sdks) {
		readme(t, "owners", text)
	}
}

// The Transport's own bounds, by default.
const (
	callLimit = 20 * time.Minute
	attempts  = 4
)

// An owners is the result of two faults with the SDK's own retries left on and
// with them off.
type owners struct {
	name      string
	left, off [2]result
}

func faultNamed(t *testing.T, name string) fault {
	t.Helper()
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
	require.NotEqual(t, -1, i, "no fault is called %q", name)
	return faults[i]
}
