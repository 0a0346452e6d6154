package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// logTail is how much of a process's log a failed test shows.
const logTail = 12 << 10

// daemon is a started process whose output goes to a file.
type daemon struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended and been waited for
}

// startDaemon starts cmd. Its output is appended to dir/name.log and shown when the test fails.
func startDaemon(t testing.TB, dir, name string, cmd *exec.Cmd) *daemon {
	t.Helper()
	d := &daemon{t: t, name: name, cmd: cmd, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	_, noLogYet := os.Stat(d.log)
	out, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is read from ProcessState
		close(d.done)
	}()
	if noLogYet != nil { // later starts share the log of the first
		t.Cleanup(d.showLogOfFailure)
	}
	t.Cleanup(func() { d.Signal(syscall.SIGKILL); <-d.done })
	return d
}

func (d *daemon) showLogOfFailure() {
	if d.t.Failed() {
		d.t.Logf("== log of %s\n%s", d.name, d.Log(logTail))
	}
}

// Log returns the end of the process's output, at most limit bytes (0: all).
func (d *daemon) Log(limit int) string {
	b, err := os.ReadFile(d.log)
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
func (d *daemon) PID() int { return d.cmd.Process.Pid }

// Signal sends a signal; a process that has ended is not an error.
func (d *daemon) Signal(sig syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.t.Errorf("signal %v to %s: %v", sig, d.name, err)
	}
}

// Exited reports whether the process has ended.
func (d *daemon) Exited() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// WaitExit waits for the end of the process and returns its exit code, -1 when a signal ended it.
func (d *daemon) WaitExit() int {
	d.t.Helper()
	select {
	case <-d.done:
		return d.cmd.ProcessState.ExitCode()
	case <-time.After(Patience):
		d.t.Fatalf("%s (pid %d) is still running after %s", d.name, d.PID(), Patience)
		return 0
	}
}

// Kill9 kills the process with SIGKILL and waits until it has ended.
func (d *daemon) Kill9() {
	d.t.Helper()
	d.Signal(syscall.SIGKILL)
	d.WaitExit()
}

// Pause stops the process (SIGSTOP) and returns when it is stopped.
func (d *daemon) Pause() {
	d.t.Helper()
	Pause(d.t, d.PID())
}

// Resume lets a paused process continue.
func (d *daemon) Resume() { d.t.Helper(); d.Signal(syscall.SIGCONT) }

// standsStill returns nil when the process is stopped.
func standsStill(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && !bytes.Contains(stat, []byte(") T ")) {
		err = errors.New("it is still running")
	}
	return err
}

// need finds a command, or ends the test and says how to install it.
func need(t testing.TB, command, pkg string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		path := filepath.Join(dir, command)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	t.Fatalf("there is no %s on this machine; install it with: apt-get install %s (make test does)", command, pkg)
	return ""
}
