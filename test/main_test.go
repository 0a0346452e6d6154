package test

import (
	"flag"
	"os"
	"testing"
)

// parallelTests is more than the number of processors: each test mostly waits for its processes.
const parallelTests = "8"

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", parallelTests) // before flags are parsed: -parallel wins
	os.Exit(m.Run())
}
