// Package version tells which version of this module is in the program that runs.
package version

import "runtime/debug"

const module = "github.com/neverhang/neverhang"

// Of returns the version of this module, going by what the program was built from:
// "devel" if that is a checkout or not known.
func Of(info *debug.BuildInfo, ok bool) string {
	if !ok {
		return "devel"
	}
	version := ""
	if info.Main.Path == module {
		version = info.Main.Version
	}
	for _, d := range info.Deps {
		if d.Path == module {
			version = d.Version
		}
	}
	if version == "" || version == "(devel)" {
		return "devel"
	}
	return version
}
