package version_test

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/neverhang/neverhang/internal/version"
)

func TestOf(t *testing.T) {
	const module = "github.com/neverhang/neverhang"
	other := &debug.Module{Path: "example.com/other", Version: "v9.9.9"}
	for name, tt := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"not known":                 {nil, "devel"},
		"a checkout":                {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "(devel)"}}, "devel"},
		"without a version":         {&debug.BuildInfo{Main: debug.Module{Path: module}}, "devel"},
		"installed":                 {&debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.2.0"}, Deps: []*debug.Module{other}}, "v0.2.0"},
		"a dependency":              {&debug.BuildInfo{Main: *other, Deps: []*debug.Module{other, {Path: module, Version: "v0.3.1"}}}, "v0.3.1"},
		"a dependency replaced":     {&debug.BuildInfo{Main: *other, Deps: []*debug.Module{{Path: module, Version: "(devel)"}}}, "devel"},
		"a program of another kind": {&debug.BuildInfo{Main: *other, Deps: []*debug.Module{other}}, "devel"},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, tt.want, version.Of(tt.info, tt.info != nil)) })
	}
}
