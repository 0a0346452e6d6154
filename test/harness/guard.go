package harness

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
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

// root is the directory of everything that this test process creates. Its path is short, because Unix sockets are below
// it.
var root = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "wkc-")
	if err != nil {
		return "", err
	}
	if err := startGuard(dir); err != nil {
		return "", fmt.Errorf("starting the guard of %s: %w", dir, err)
	}
	return dir, nil
})

// startGuard starts guardScript as a process group of its own, so that an interrupt at the terminal does not end it
// first.
func startGuard(dir string) error {
	cmd := exec.Command("/bin/sh", "-c", guardScript, dir, os.Getenv(keepEnv))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	guards.Lock()
	defer guards.Unlock()
	guards.alive = append(guards.alive, alive)
	return cmd.Start()
}

// guards protects the pipes from the garbage collector, which would close them: they must end with this process.
var guards struct {
	sync.Mutex
	alive []io.Closer
}

var dirCount struct {
	sync.Mutex
	n int
}

// newDir makes a directory below root. Processes that are still running in it when the test ends are killed.
func newDir(t testing.TB, name string) string {
	t.Helper()
	base, err := root()
	if err != nil {
		t.Fatal(err)
	}
	dirCount.Lock()
	dirCount.n++
	n := dirCount.n
	dirCount.Unlock()
	dir := filepath.Join(base, strconv.Itoa(n)+"-"+name)
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
			t.Errorf("removing %s: %v", dir, err)
		}
	})
	return dir
}

// killBelow kills every process whose working directory is dir or below it, until there is none.
func killBelow(t testing.TB, dir string) {
	err := within(Patience, func() error {
		left := pidsBelow(dir)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by now
		}
		if len(left) > 0 {
			return fmt.Errorf("processes %v are still running in %s", left, dir)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func pidsBelow(dir string) []int {
	var pids []int
	for _, p := range Processes(dir) {
		pids = append(pids, p.PID)
	}
	return pids
}

// Process is a running process as /proc shows it.
type Process struct {
	PID, Parent int
	Title       string // its command line, joined with spaces
}

// Processes returns the processes, except zombies, whose working directory is dir or below it.
func Processes(dir string) []Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink("/proc/" + e.Name() + "/cwd")
		if err != nil || (cwd != dir && !strings.HasPrefix(cwd, dir+"/")) {
			continue
		}
		if p, ok := readProcess(pid); ok {
			found = append(found, p)
		}
	}
	return found
}

func readProcess(pid int) (Process, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, false
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return Process{}, false
	}
	// pid (name, which may contain anything) state ppid …
	rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(rest) < 2 || rest[0] == "Z" || rest[0] == "X" {
		return Process{}, false
	}
	parent, err := strconv.Atoi(rest[1])
	if err != nil {
		return Process{}, false
	}
	title := strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))
	return Process{PID: pid, Parent: parent, Title: title}, true
}

// alive reports whether the process is still running. A zombie is not.
func alive(pid int) bool {
	_, ok := readProcess(pid)
	return ok
}
