package neverhang_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/neverhang/neverhang"

// What each package may import of this module and of others. Imports run
// downward only; what is not listed may import nothing but the standard
// library.
var mayImport = map[string][]string{
	".":                          {},
	"chat":                       {},
	"internal/sse":               {},
	"internal/version":           {},
	"pacer":                      {"golang.org/x/time/rate"},
	"pacer/ratelimit":            {module + "/pacer"},
	"breaker":                    {"github.com/sony/gobreaker/v2"},
	"internal/fakeserver":        {module + "/chat"},
	"internal/fakeserver/engine": {module + "/chat", module + "/internal/fakeserver"},
	"llmclient": {
		module + "/chat", module + "/pacer", module + "/pacer/ratelimit", module + "/breaker",
		module + "/internal/sse", module + "/internal/version",
		"github.com/cenkalti/backoff/v4", "go.opentelemetry.io/otel",
	},
	"health": {
		module + "/llmclient", module + "/breaker", module + "/pacer", module + "/internal/version",
		"github.com/prometheus/common", "github.com/prometheus/client_model",
	},
	"agentloop/journal":   {},
	"agentloop/modeltest": {module + "/chat", module + "/agentloop"},
	"agentloop":           {module + "/chat", module + "/agentloop/journal", "github.com/google/jsonschema-go"},
	"examples/sessionbible": {
		module + "/chat", module + "/llmclient", module + "/agentloop", module + "/agentloop/journal",
		module + "/pacer", module + "/breaker", module + "/health",
	},
}

// The one file outside of tests that may use the fake server, so that the
// example can be copied without it.
const offline = "examples/sessionbible/offline.go"

// A sourceFile is a parsed file of this module.
type sourceFile struct {
	path string // from the root, with slashes
	ast  *ast.File
}

func (f sourceFile) pkg() string { return filepath.ToSlash(filepath.Dir(f.path)) }

// sources returns the module's Go files, nested modules apart.
func sources(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && path != "."
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != "." || hidden || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err == nil {
			files = append(files, sourceFile{filepath.ToSlash(path), f})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestImportsRunDownward(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range sources(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		allowed, known := mayImport[f.pkg()]
		seen[f.pkg()] = true
		if !known {
			t.Errorf("%s: package %s has no entry in mayImport", f.path, f.pkg())
			continue
		}
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			switch {
			case path == "testing" || strings.Contains(path, "testify") || strings.Contains(path, "goleak"):
				t.Errorf("%s imports %s, which belongs into tests", f.path, path)
			case !strings.Contains(strings.Split(path, "/")[0], "."):
				// the standard library
			case f.path == offline && (path == module+"/internal/fakeserver" || path == module+"/internal/fakeserver/engine"):
			case !slices.ContainsFunc(allowed, func(a string) bool {
				return path == a || strings.HasPrefix(path, a+"/") && !strings.HasPrefix(a, module)
			}):
				t.Errorf("%s imports %s, which package %s may not", f.path, path, f.pkg())
			}
		}
	}
	for pkg := range mayImport {
		if !seen[pkg] {
			t.Errorf("mayImport lists %s, which does not exist", pkg)
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	for _, f := range sources(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		if _, there := comments[f.pkg()]; !there {
			comments[f.pkg()] = nil
		}
		if f.ast.Doc != nil {
			comments[f.pkg()] = append(comments[f.pkg()], f.path)
		}
	}
	for pkg, files := range comments {
		if len(files) != 1 {
			t.Errorf("package %s has a package comment in %d files %v, want 1", pkg, len(files), files)
		}
	}
}
