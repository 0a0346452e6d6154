package process

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/wakecall/wakecall/test/wait"
)

// Info is a running process as /proc shows it.
type Info struct {
	procfs.Proc
	Title   string // its command line, joined with spaces
	Stopped bool
}

// Below returns the processes, except zombies, whose working directory is dir or below it.
func Below(dir string) (found []Info) {
	all, _ := procfs.AllProcs() // none on a system without /proc
	for _, p := range all {
		cwd, err := p.Cwd()
		if err != nil || (cwd != dir && !strings.HasPrefix(cwd, dir+"/")) {
			continue
		}
		if info, ok := Read(p.PID); ok {
			found = append(found, info)
		}
	}
	return found
}

// Read returns a running process, not a zombie.
func Read(pid int) (Info, bool) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Info{}, false
	}
	stat, statErr := p.Stat()
	args, argsErr := p.CmdLine()
	runs := errors.Join(statErr, argsErr) == nil && stat.State != "Z" && stat.State != "X"
	return Info{p, strings.Join(args, " "), stat.State == "T"}, runs
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

// Files returns how many files a process has open.
func Files(pid int) (int, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	return p.FileDescriptorsLen()
}

// LimitFiles limits how many files a process may have open, until restore is called.
func LimitFiles(pid, most int) (restore func() error, err error) {
	var old unix.Rlimit
	err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old)
	few := unix.Rlimit{Cur: uint64(most), Max: old.Max}
	if err = errors.Join(err, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil)); err != nil {
		return nil, fmt.Errorf("limit the files of process %d: %w", pid, err)
	}
	return func() error {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("restore the limit of process %d: %w", pid, err)
		}
		return nil
	}, nil
}

// CPU returns the processor time that a process has used, to the nanosecond: what an idle process uses in half a minute
// is a few of the ticks in which its stat counts.
func CPU(pid int) (total time.Duration, err error) {
	threads, err := procfs.AllThreads(pid)
	for _, thread := range threads {
		if used, err := thread.Schedstat(); err == nil { // otherwise the thread has ended
			total += time.Duration(used.RunningNanoseconds)
		}
	}
	return total, err
}
