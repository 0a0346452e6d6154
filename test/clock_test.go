package test

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness/process"
)

// clockSource moves the wall clock of a program that gets it from libc, as redis-server does (a Go program does not),
// by the number of seconds in a file.
//
//go:embed testdata/clock.c
var clockSource []byte

// clock is a wall clock that can be set, for the redis-servers that are started with it.
type clock struct {
	t       testing.TB
	library string
	file    string
}

var clockLibrary = sync.OnceValues(func() (string, error) {
	dir, err := process.Root()
	if err != nil {
		return "", err
	}
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return "", err
	}
	_, err = exec.Command("gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl").Output()
	return library, err
})

// newClock returns a clock that shows the correct time.
func newClock(t testing.TB) *clock {
	t.Helper()
	process.Need(t, "gcc", "gcc libc6-dev")
	library, err := clockLibrary()
	if err != nil {
		t.Fatalf("compiling the clock: %v", err)
	}
	c := &clock{t: t, library: library, file: filepath.Join(process.Dir(t, "clock"), "offset")}
	c.Set(0)
	return c
}

// Set sets the clock ahead of this machine's, or behind it, in whole seconds.
func (c *clock) Set(ahead time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600) // the file is mapped, so it must not be replaced
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(ahead/time.Second))), 0); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clock) env() []string {
	return []string{"LD_PRELOAD=" + c.library, "TEST_CLOCK_FILE=" + c.file}
}
