package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

// Info is a running process as /proc shows it.
type Info struct {
	PID, Parent int
	Title       string // its command line, joined with spaces
	Stopped     bool
}

// Below returns the processes, except zombies, whose working directory is dir or below it.
func Below(dir string) (found []Info) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cwd, err := os.Readlink("/proc/" + e.Name() + "/cwd")
		if err != nil || (cwd != dir && !strings.HasPrefix(cwd, dir+"/")) {
			continue
		}
		if p, ok := Read(pid); ok {
			found = append(found, p)
		}
	}
	return found
}

// Read returns a running process, not a zombie.
func Read(pid int) (Info, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Info{}, false
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return Info{}, false
	}
	// pid (name, which may contain anything) state ppid …
	rest := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(rest) < 2 || rest[0] == "Z" || rest[0] == "X" {
		return Info{}, false
	}
	parent, err := strconv.Atoi(rest[1])
	title := strings.TrimSpace(strings.ReplaceAll(string(cmdline), "\x00", " "))
	return Info{PID: pid, Parent: parent, Title: title, Stopped: rest[0] == "T"}, err == nil
}

// Kill9 kills a process and returns when it has ended.
func Kill9(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill -9 %d: %v", pid, err)
	}
	wait.For(t, fmt.Sprintf("process %d to end", pid), func() bool { _, runs := Read(pid); return !runs })
}

// Pause stops the processes with SIGSTOP. They resume at the latest at the end of the test.
func Pause(t testing.TB, pids ...int) (resume func()) {
	t.Helper()
	resume = func() { _ = Signal(syscall.SIGCONT, pids...) }
	t.Cleanup(resume)
	if err := Signal(syscall.SIGSTOP, pids...); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		wait.For(t, fmt.Sprintf("process %d to stop", pid), func() bool {
			p, runs := Read(pid)
			return !runs || p.Stopped
		})
	}
	return resume
}

// CPU returns the processor time that a process has used, to the nanosecond: what an idle process uses in half a minute
// is a few of the ticks in which its stat counts.
func CPU(pid int) (total time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, name := range threads {
		used, readErr := usedBy(name)
		if readErr == nil { // otherwise the thread has ended
			total += used
		}
	}
	return total, err
}

// MainCPU returns the processor time that the first thread of a process has used: in redis-server, the one that runs
// commands.
func MainCPU(pid int) (time.Duration, error) {
	return usedBy(fmt.Sprintf("/proc/%d/task/%[1]d/schedstat", pid))
}

func usedBy(schedstat string) (time.Duration, error) {
	b, err := os.ReadFile(schedstat)
	if err != nil {
		return 0, err
	}
	used, _, _ := strings.Cut(string(b), " ")
	ns, err := strconv.ParseInt(used, 10, 64)
	return time.Duration(ns), err
}

// Resident returns the bytes that a process keeps in memory.
func Resident(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm contains %q", pid, b)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
