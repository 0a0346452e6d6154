package test

import (
	"flag"
	"os"
	"testing"
)

// parallelTests is more than there are processors: each test mostly waits for processes of its own.
const parallelTests = "8"

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", parallelTests) // a -parallel on the command line counts: flags are parsed later
	os.Exit(m.Run())
}
