// Package process starts the servers of tests, each in a directory of its own, and reads what /proc shows of them.
// Nothing that it starts outlives the test process, however that ends.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/wait"
)

// keepEnv, when set, keeps the directories of failed tests for inspection.
const keepEnv = "WAKECALL_TEST_KEEP"

// guardScript waits for the end of its input, which is the end of the test process, however it ends; then it kills
// every process that works below the directory and removes it.
const guardScript = `
read -r _
for round in 1 2 3; do
	for p in /proc/[0-9]*; do
		case $(readlink "$p/cwd" 2>/dev/null) in
		"$0"|"$0"/*) kill -KILL "${p#/proc/}" 2>/dev/null ;;
		esac
	done
done
[ -n "$1" ] || rm -rf "$0"
`

// guards keeps the pipes to guards from the garbage collector, which would close them: they must end with this process.
var guards []io.Closer

// Root is the directory of everything that this test process creates. Its path is short, because Unix sockets are below
// it.
var Root = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "wkc-"); err != nil {
		return "", err
	}
	if err := guard(dir); err != nil {
		return "", fmt.Errorf("start the guard of %s: %w", dir, err)
	}
	return dir, nil
})

// guard starts guardScript in a process group of its own, so that an interrupt at the terminal does not end it first.
func guard(dir string) error {
	cmd := exec.Command("/bin/sh", "-c", guardScript, dir, os.Getenv(keepEnv))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	guards = append(guards, alive)
	return cmd.Start()
}

var dirCount atomic.Int64

// Dir makes a directory below Root. Processes that are still running in it when the test ends are killed.
func Dir(t testing.TB, name string) string {
	t.Helper()
	base, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, strconv.FormatInt(dirCount.Add(1), 10)+"-"+name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		killBelow(t, dir)
		if os.Getenv(keepEnv) != "" && t.Failed() {
			t.Logf("kept %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove %s: %v", dir, err)
		}
	})
	return dir
}

// killBelow kills every process whose working directory is dir or below it, until there is none.
func killBelow(t testing.TB, dir string) {
	wait.For(t, "the processes in "+dir+" to end", func() bool {
		left := Below(dir)
		for _, p := range left {
			_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended by now
		}
		return len(left) == 0
	})
}

// Signal sends a signal to processes. One that has ended is not an error.
func Signal(sig syscall.Signal, pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%v to process %d: %w", sig, pid, err)
		}
	}
	return nil
}
