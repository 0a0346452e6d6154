package test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at once than there are processors: each of them mostly waits for processes of its own.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "8") // the flag is known, and the value is a number
	}
	os.Exit(m.Run())
}
