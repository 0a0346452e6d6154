package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/race"
)

const (
	// binaryEnv names a wakecall binary to test instead of building one.
	binaryEnv = "WAKECALL_TEST_BINARY"
	// coverEnv names a directory for the coverage of the tested processes (make cover).
	coverEnv = "WAKECALL_TEST_COVERDIR"
)

var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(binaryEnv); path != "" {
		return filepath.Abs(path)
	}
	dir, err := process.Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "wakecall")
	var args []string
	if os.Getenv(coverEnv) != "" {
		args = append(args, "-cover", "-coverpkg=github.com/wakecall/wakecall/...")
	}
	return binary, build(binary, args...)
})

// Build builds the wakecall under test with further arguments of go build.
func Build(t testing.TB, args ...string) (path string) {
	t.Helper()
	path = filepath.Join(process.Dir(t, "build"), "wakecall")
	if err := build(path, args...); err != nil {
		t.Fatal(err)
	}
	return path
}

// build builds wakecall like `make build`, whose cached packages it shares, or with the race detector when the tests
// have it.
func build(path string, args ...string) error {
	args = append([]string{"build", "-trimpath", "-buildvcs=false", "-o", path}, args...)
	cgo := "CGO_ENABLED=0"
	if race.Enabled {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "github.com/wakecall/wakecall/cmd/wakecall")...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// Binary returns the wakecall under test: the one that the environment names, or one that is built once in a test
// process.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
