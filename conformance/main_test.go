package conformance_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// update rewrites the tables in README.md.
var update = flag.Bool("update", false, "rewrite the tables in README.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
