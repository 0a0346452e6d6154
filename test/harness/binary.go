package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
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
	dir, err := root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "wakecall")
	args := []string{"build", "-buildvcs=false", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	if os.Getenv(coverEnv) != "" {
		args = append(args, "-cover", "-coverpkg=github.com/wakecall/wakecall/...")
	}
	out, err := exec.Command("go", append(args, "github.com/wakecall/wakecall/cmd/wakecall")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building wakecall: %w\n%s", err, out)
	}
	return binary, nil
})

// BuildVersion builds the wakecall under test as another version.
func BuildVersion(t testing.TB, version string) (path string) {
	t.Helper()
	args := []string{"build", "-buildvcs=false", "-ldflags", "-X main.version=" + version}
	if raceEnabled {
		args = append(args, "-race")
	}
	return build(t, args, nil)
}

// BuildInstalled builds wakecall as `make build` does, without the race detector, for tests under a high load.
func BuildInstalled(t testing.TB) (path string) {
	t.Helper()
	return build(t, []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"}, []string{"CGO_ENABLED=0"})
}

func build(t testing.TB, args, env []string) (path string) {
	t.Helper()
	path = filepath.Join(newDir(t, "build"), "wakecall")
	cmd := exec.Command("go", append(args, "-o", path, "github.com/wakecall/wakecall/cmd/wakecall")...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return path
}

// Binary is the wakecall under test: built once in a test process, with the race detector when the tests have it.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
