package process

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

// logTail is how much of a process's log a failed test shows.
const logTail = 12 << 10

// Process is a started process whose output goes to a file.
type Process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended and been waited for
}

// Start starts cmd in dir. Its output is appended to dir/name.log, whose end is shown when the test fails.
func Start(t testing.TB, dir, name string, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, name: name, cmd: cmd, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	_, noLogYet := os.Stat(p.log)
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is read from ProcessState
		close(p.done)
	}()
	if noLogYet != nil { // later starts share the log of the first
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("== log of %s\n%s", name, p.Log(logTail))
			}
		})
	}
	t.Cleanup(func() { p.Signal(syscall.SIGKILL); <-p.done })
	return p
}

// Log returns the end of the process's output, at most limit bytes (0: all).
func (p *Process) Log(limit int) string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if limit > 0 && len(b) > limit {
		b = b[len(b)-limit:]
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	return strings.TrimSpace(string(b))
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal; a process that has ended is not an error.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal %v to %s: %v", sig, p.name, err)
	}
}

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// WaitExit waits for the end of the process and returns its exit code, -1 when a signal ended it.
func (p *Process) WaitExit() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(wait.Limit):
		p.t.Fatalf("%s (pid %d) is still running after %s", p.name, p.PID(), wait.Limit)
		return 0
	}
}

// Kill9 kills the process with SIGKILL and waits until it has ended.
func (p *Process) Kill9() {
	p.t.Helper()
	p.Signal(syscall.SIGKILL)
	p.WaitExit()
}

// Pause stops the process (SIGSTOP) and returns when it is stopped.
func (p *Process) Pause() { p.t.Helper(); Pause(p.t, p.PID()) }

// Resume lets a paused process continue.
func (p *Process) Resume() { p.t.Helper(); p.Signal(syscall.SIGCONT) }

// Need finds a command, or ends the test and says how to install it.
func Need(t testing.TB, command, pkg string) string {
	t.Helper()
	for _, name := range []string{command, "/usr/sbin/" + command, "/sbin/" + command} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("%s is not installed: apt-get install %s (make test does)", command, pkg)
	return ""
}
