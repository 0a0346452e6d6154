package test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheBuildIsReproducible: `make build` of the same source in two directories produces the same bytes, without
// either directory's name.
func TestTheBuildIsReproducible(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds twice")
	}
	source := sourceFiles(t)
	var sums []string
	for _, name := range []string{"one", "another/place"} {
		dir := filepath.Join(t.TempDir(), name)
		copyFiles(t, source, dir)
		cmd := exec.Command("make", "build", "VERSION=v0.0.0-test")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make build: %v\n%s", err, out)
		}
		b, err := os.ReadFile(filepath.Join(dir, "bin/wakecall"))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(dir)) {
			t.Errorf("the binary contains the name of its build directory")
		}
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(b)))
	}
	if sums[0] != sums[1] {
		t.Errorf("the bytes differ: %v", sums)
	}
}

// sourceFiles are the files of the repository, from its root: committed ones, and new ones that are not ignored.
func sourceFiles(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func copyFiles(t *testing.T, names []string, to string) {
	t.Helper()
	for _, name := range names {
		// a deleted file
		if err := copyFile(filepath.Join("..", name), filepath.Join(to, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	return err
}
