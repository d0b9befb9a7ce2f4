package comparison_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the table in README.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A finding is what became of a scene with a library.
type finding struct {
	back  time.Duration // negative: not by the deadline
	done  bool          // it calls it a success
	named bool
	kept  bool
	said  string
}

// play plays a scene in a bubble of its own.
func play(t *testing.T, lib library, s scene) (f finding) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		d := &desk{stuck: s.stuck, fails: s.fails, release: make(chan struct{})}
		p := &player{script: s.script}
		type ended struct {
			said string
			err  error
		}
		back := make(chan ended, 1)
		start := time.Now()
		go func() {
			said, err := lib.run(ctx, p, d)
			back <- ended{said, err}
		}()
		select {
		case e := <-back:
			f = finding{back: time.Since(start), done: e.err == nil, said: strings.TrimSpace(fmt.Sprintf("%s %v", e.said, e.err))}
		case <-time.After(deadline + slack):
			f = finding{back: -1}
		}
		for _, word := range s.named {
			f.named = f.named || strings.Contains(strings.ToLower(f.said), word)
		}
		f.kept = d.kept() // before a stuck tool lets go
		close(d.release)
		if f.back < 0 {
			<-back // now that the tool lets go
		}
	})
	return f
}

// cell writes a finding down.
func (f finding) cell(s scene) string {
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	if f.back < 0 {
		return "**hangs**, –, " + yes(f.kept)
	}
	back := f.back.Round(time.Second).String()
	if len(s.named) == 0 {
		return fmt.Sprintf("%s, –, %s", back, yes(f.kept))
	}
	named := yes(f.named)
	if f.done {
		named = "no, **“success”**"
	}
	return fmt.Sprintf("%s, %s, %s", back, named, yes(f.kept))
}

func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| |")
	for _, lib := range libraries {
		fmt.Fprintf(&b, " %s |", lib.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(libraries)) + "\n")
	for _, s := range scenes {
		fmt.Fprintf(&b, "| %s |", s.name)
		for _, lib := range libraries {
			f := play(t, lib, s)
			fmt.Fprintf(&b, " %s |", f.cell(s))
			t.Logf("%s, %s: %+v", s.name, lib.name, f)
			if lib.name != neverhang.name {
				if s.name == "all is well" {
					assert.True(t, f.done && f.kept, "%s is used well: %+v", lib.name, f)
				}
				continue
			}
			// What this module promises.
			assert.GreaterOrEqual(t, f.back, time.Duration(0), s.name)
			assert.Equal(t, len(s.named) > 0, f.named, s.name)
			assert.Equal(t, len(s.named) == 0, f.done, s.name)
			assert.True(t, f.kept, s.name)
		}
		b.WriteString("\n")
	}
	t.Log("\n" + b.String())
	const begin, end = "<!-- table -->\n", "<!-- end -->"
	data, err := os.ReadFile("README.md")
	require.NoError(t, err)
	head, rest, ok1 := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	require.True(t, ok1 && ok2, "README.md has the marks of the table")
	want := head + begin + "\n" + b.String() + "\n" + end + tail
	if *update {
		require.NoError(t, os.WriteFile("README.md", []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(data), "README.md is not up to date: go test -update")
}
