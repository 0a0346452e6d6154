package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness/process"
)

// Options say how an installation is configured. The zero value is the embedded default: managed redis-server, SQLite.
type Options struct {
	Env  map[string]string // further configuration, as WAKECALL_… variables
	File string            // contents of a configuration file
	Args []string          // further arguments of `wakecall up`

	Binary string // a binary other than the one under test
	Umask  string // umask of every process, in octal; "": that of the test

	Sockets []*os.File // listening sockets, passed to `wakecall up` as systemd does
}

// Wakecall is an installation: `wakecall up` with a data directory and ports of its own.
type Wakecall struct {
	*API
	*process.Process
	t    testing.TB
	Dir  string // working directory of the processes
	Data string // data_dir
	env  map[string]string
	opts Options
}

// New prepares an installation without starting it.
func New(t testing.TB, opts Options) *Wakecall {
	t.Helper()
	dir := process.Dir(t, "up")
	w := &Wakecall{t: t, Dir: dir, Data: filepath.Join(dir, "data"), opts: opts}
	server, metrics := freeport.TCP(t), freeport.TCP(t)
	w.env = map[string]string{
		"WAKECALL_DATA_DIR":     w.Data,
		"WAKECALL_SERVER_ADDR":  fmt.Sprintf("127.0.0.1:%d", server),
		"WAKECALL_METRICS_ADDR": fmt.Sprintf("127.0.0.1:%d", metrics),
		"WAKECALL_ADMIN_ADDR":   fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)),
	}
	maps.Copy(w.env, opts.Env)
	w.API = NewAPI("http://"+w.env["WAKECALL_SERVER_ADDR"], "").checked(t)
	t.Cleanup(w.checkRaces)
	return w
}

// StartWakecall starts an installation and waits until it can take a push.
func StartWakecall(t testing.TB, opts Options) *Wakecall {
	t.Helper()
	w := New(t, opts)
	w.Up()
	w.WaitReady()
	return w
}

// AdminURL returns the URL of the web admin, without a slash at its end.
func (w *Wakecall) AdminURL() string { return "http://" + w.env["WAKECALL_ADMIN_ADDR"] }

// Up starts `wakecall up`, also again, on the same data directory and ports. It does not wait.
func (w *Wakecall) Up() {
	w.t.Helper()
	cmd := w.command(append([]string{"up"}, w.opts.Args...)...)
	if len(w.opts.Sockets) > 0 {
		cmd = shell(fmt.Sprintf("export LISTEN_PID=$$ LISTEN_FDS=%d", len(w.opts.Sockets)), cmd)
		cmd.ExtraFiles = w.opts.Sockets // the descriptors from 3 on, as a service manager passes them
	}
	w.Process = process.Start(w.t, w.Dir, filepath.Base(w.Dir), cmd)
}

// shell runs cmd after a command of the shell, which becomes the program and keeps its process id.
func shell(first string, cmd *exec.Cmd) *exec.Cmd {
	by := exec.Command("/bin/sh", append([]string{"-c", first + `; exec "$0" "$@"`}, cmd.Args...)...)
	by.Dir, by.Env = cmd.Dir, cmd.Env
	return by
}

// StartRole starts a single role in the foreground, as in a container.
func (w *Wakecall) StartRole(role string) *process.Process {
	w.t.Helper()
	return process.Start(w.t, w.Dir, role, w.command(role))
}

// Command is a wakecall command with this installation's configuration, for a test that talks to it.
func (w *Wakecall) Command(args ...string) *exec.Cmd { w.t.Helper(); return w.command(args...) }

// command is the wakecall binary with this installation's configuration and without the test's environment.
func (w *Wakecall) command(args ...string) *exec.Cmd {
	w.t.Helper()
	if w.opts.File != "" {
		w.WriteFile(w.opts.File)
		args = append(args, "--config", w.file())
	}
	binary := w.opts.Binary
	if binary == "" {
		binary = Binary(w.t)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir = w.Dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin",
		"HOME=" + w.Dir,
		"GORACE=halt_on_error=0 atexit_sleep_ms=0",
	}
	if dir := os.Getenv(coverEnv); dir != "" {
		cmd.Env = append(cmd.Env, "GOCOVERDIR="+dir)
	}
	for _, key := range slices.Sorted(maps.Keys(w.env)) {
		cmd.Env = append(cmd.Env, key+"="+w.env[key])
	}
	if w.opts.Umask != "" {
		return shell("umask "+w.opts.Umask, cmd)
	}
	return cmd
}

func (w *Wakecall) file() string { return filepath.Join(w.Dir, "wakecall.yaml") }

// WriteFile changes the configuration file.
func (w *Wakecall) WriteFile(text string) {
	w.t.Helper()
	w.opts.File = text
	if err := os.WriteFile(w.file(), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// Metrics returns the master's metrics address.
func (w *Wakecall) Metrics() *API { return NewAPI("http://"+w.env["WAKECALL_METRICS_ADDR"], "") }

// SetEnv changes the configuration for the next start.
func (w *Wakecall) SetEnv(key, value string) { w.env[key] = value }

// WaitReady waits until /readyz answers 200, and reads the API token that the first start created.
func (w *Wakecall) WaitReady() {
	w.t.Helper()
	Eventually(w.t, Patience, "wakecall to be ready", func() error {
		if w.Process != nil && w.Exited() { // there is none when the roles run alone
			w.t.Fatalf("wakecall ended with code %d before it was ready:\n%s", w.WaitExit(), w.Log(4000))
		}
		return w.Readyz()
	})
	token := w.readToken()
	if token == "" {
		w.t.Fatalf("wakecall is ready, but created no %s", filepath.Join(w.Data, "api-token"))
	}
	if token != w.Token { // it never changes: a load may be reading it
		w.Token = token
	}
}

func (w *Wakecall) readToken() string {
	token, err := os.ReadFile(filepath.Join(w.Data, "api-token"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(token))
}

// ShareToken gives installations on one registry the token of the one that created it.
func ShareToken(t testing.TB, installations ...*Wakecall) {
	t.Helper()
	token := ""
	for _, w := range installations {
		token = cmp.Or(token, w.readToken())
	}
	if token == "" {
		t.Fatal("no installation created a token")
	}
	for _, w := range installations {
		w.Token = token
	}
}

// Readyz returns nil when the installation can take a push.
func (w *Wakecall) Readyz() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	a := w.Do(ctx, http.MethodGet, "/readyz", nil)
	if a.Err != nil {
		return a.Err
	}
	return Equal("status of /readyz", a.Status, http.StatusOK)
}

// Run runs a wakecall command with this installation's configuration and returns its exit code and what it printed.
func (w *Wakecall) Run(args ...string) (code int, output string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cmd := w.command(args...)
	kill := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer kill()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		w.t.Fatalf("wakecall %s is still running after %s:\n%s", strings.Join(args, " "), Patience, out)
	}
	if cmd.ProcessState == nil {
		w.t.Fatalf("wakecall %s: %v", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// Role returns the pids of the processes with a role, by their titles: "wakecall: dispatcher 2"; of the managed
// redis-server for "redis".
func (w *Wakecall) Role(role string) []int {
	var pids []int
	for _, p := range process.Below(w.Dir) {
		if strings.HasPrefix(p.Title+" ", "wakecall: "+role+" ") ||
			(role == "redis" && strings.Contains(p.Title, "redis-server") && !strings.Contains(p.Title, "--version")) {
			pids = append(pids, p.PID)
		}
	}
	slices.Sort(pids)
	return pids
}

// WaitRole waits until n processes of a role run, none of them among those given, and returns them.
func (w *Wakecall) WaitRole(role string, n int, not ...int) []int {
	w.t.Helper()
	var pids []int
	Eventually(w.t, Patience, fmt.Sprintf("%d of %s", n, role), func() error {
		pids = slices.DeleteFunc(w.Role(role), func(pid int) bool { return slices.Contains(not, pid) })
		return Equal("their number", len(pids), n)
	})
	return pids
}

// KillRole kills one process of a role with SIGKILL, waits until it has ended, and returns its pid.
func (w *Wakecall) KillRole(role string) int {
	w.t.Helper()
	pids := w.Role(role)
	if len(pids) == 0 {
		w.t.Fatalf("there is no %s to kill among %v", role, process.Below(w.Dir))
	}
	process.Kill9(w.t, pids[0])
	return pids[0]
}

// Children returns the pids of all processes but the master.
func (w *Wakecall) Children() []int {
	var pids []int
	for _, p := range process.Below(w.Dir) {
		if p.PID != w.PID() {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

var crash = regexp.MustCompile("WARNING: DATA RACE|panic: |fatal error: ")

// checkRaces fails the test if the race detector reported a race in one of the processes, or one of them panicked.
func (w *Wakecall) checkRaces() {
	logs, err := filepath.Glob(filepath.Join(w.Dir, "*.log"))
	for _, file := range logs {
		log, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr)
		if at := crash.FindIndex(log); at != nil {
			w.t.Errorf("%s has\n%s", filepath.Base(file), log[at[0]:min(len(log), at[0]+6000)])
		}
	}
	if err != nil {
		w.t.Error(err)
	}
}
