package test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
)

// replaceBinary replaces a file atomically, as an installation does.
func replaceBinary(t *testing.T, path, by string) {
	t.Helper()
	b, err := os.ReadFile(by)
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o755)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUpgradeUnderLoad: a new binary is installed and SIGHUP sent. Every child is of the new version, no request fails,
// no job is lost. Then one that cannot start is installed: the reload fails, and everything continues unchanged.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	next := harness.Build(t, "-ldflags", "-s -w -X main.linked=9.9.9-next")
	binary := filepath.Join(t.TempDir(), "wakecall")
	replaceBinary(t, binary, harness.Binary(t))
	opts := unhurried()
	opts.Binary = binary
	i := start(t, opts)
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	load := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic, Rate: 300, Pushers: 8, Fields: M{"delay": "50ms"}, PushFailed: noFailure(t)})
	ledger.WaitAcknowledged(t, 100)

	old := slices.DeleteFunc(i.Children(), func(pid int) bool { return slices.Contains(i.Role("redis"), pid) })
	replaceBinary(t, binary, next)
	began := time.Now()
	i.Signal(syscall.SIGHUP)
	i.WaitRole("server", 1, old...)
	i.WaitRole("dispatcher", 2, old...)
	i.WaitRole("admin", 1, old...)
	t.Logf("every process was replaced within %s", time.Since(began).Round(10*time.Millisecond))
	i.passes(t)
	calls := i.endpoint.Calls("marker")
	if agent := calls[len(calls)-1].Header.Get("User-Agent"); !strings.Contains(agent, "9.9.9-next") {
		t.Errorf("calls come from %s", agent)
	}

	if code, out := i.Run("ps"); code != 0 || !strings.Contains(out, "its processes 9.9.9-next") {
		t.Errorf("ps does not show that the master is still the old one: exit code %d: %s", code, out)
	}

	if err := os.WriteFile(binary+".new", []byte("#!/bin/sh\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(binary+".new", binary); err != nil {
		t.Fatal(err)
	}
	i.Signal(syscall.SIGHUP)
	harness.Eventually(t, soon, "the reload to fail", func() error {
		if !strings.Contains(i.Log(0), "reload failed") {
			return fmt.Errorf("the log ends with %s", i.Log(300))
		}
		return nil
	})
	ledger.WaitAcknowledged(t, 200)
	load.Stop()
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// TestUpgradeAtAHighRate: the running binary is replaced and SIGHUP sent, twice, while clients make as many requests as
// the machine permits, up to 10,000 a second. No request fails, over new connections or kept ones, and no job is lost.
func TestUpgradeAtAHighRate(t *testing.T) {
	needProcesses(t)
	const rate, atLeast = 10_000, 100 // machines differ
	installed := harness.Binary(t)
	binary := filepath.Join(t.TempDir(), "wakecall")
	replaceBinary(t, binary, installed)
	opts := unhurried()
	opts.Binary = binary
	i := start(t, opts)
	topic := i.topic(t, nil, nil)
	i.put(t, "due", nil, nil)
	ledger := harness.NewLedger()
	load := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: "due", Fields: M{"delay": "50ms"}, PushFailed: noFailure(t)})
	storm := harness.StartStorm(t, i.API, harness.StormOptions{Topic: topic, Rate: rate, Kept: 96, Short: 4})
	storm.WaitRequests(t, rate/2)

	for range 2 {
		old := slices.DeleteFunc(i.Children(), func(pid int) bool { return slices.Contains(i.Role("redis"), pid) })
		replaceBinary(t, binary, installed)
		i.Signal(syscall.SIGHUP)
		i.WaitRole("dispatcher", 2, old...)
		i.WaitRole("admin", 1, old...) // the last one
		i.waitEnded(t, old)
	}
	storm.WaitRequests(t, rate/2)
	seen := storm.Stop()
	pushed := int(storm.Pushed.Load())
	load.Stop()
	t.Logf("%d requests in %s: %.0f a second; the slowest took %s", seen.Requests, seen.Took.Round(time.Millisecond),
		seen.Rate(), seen.Slowest.Round(time.Millisecond))
	if n := len(seen.Failed); n > 0 {
		t.Errorf("%d requests failed: %s", n, strings.Join(seen.Failed[:min(n, 10)], "; "))
	}
	if seen.Rate() < atLeast {
		t.Errorf("%.0f requests a second: too few to prove anything; want at least %d", seen.Rate(), atLeast)
	}
	if stats, err := i.Stats(ctx, topic); err != nil || stats.Delayed != pushed {
		t.Errorf("%d pushes were acknowledged, and %d jobs exist (%v)", pushed, stats.Delayed, err)
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// waitEnded waits until processes have ended.
func (i *installation) waitEnded(t *testing.T, pids []int) {
	t.Helper()
	harness.Eventually(t, soon, "the old processes to end", func() error {
		for _, pid := range i.Children() {
			if slices.Contains(pids, pid) {
				return fmt.Errorf("%d is still running", pid)
			}
		}
		return nil
	})
}

// TestSystemdIsNotified by the real program: ready, reloading, ready again, stopping; and not ready before a push can
// be accepted.
func TestSystemdIsNotified(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	told := func(want string) {
		t.Helper()
		b := make([]byte, 4096)
		_ = l.SetReadDeadline(time.Now().Add(45 * time.Second))
		for {
			n, err := l.Read(b)
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if strings.Contains(string(b[:n]), want) {
				return
			}
		}
	}
	i := harness.New(t, harness.Options{Env: map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000"}})
	i.Up()
	told("READY=1")
	if answer := i.Do(ctx, http.MethodGet, "/readyz", nil); answer.Status != http.StatusOK {
		t.Errorf("it reported that it is ready, but /readyz answers %s", answer)
	}
	told("WATCHDOG=1")
	i.Signal(syscall.SIGHUP)
	told("RELOADING=1")
	told("READY=1")
	i.Signal(syscall.SIGTERM)
	told("STOPPING=1")
	i.WaitExit()
}

// nextSchema builds a wakecall of which the schema has one step more.
func nextSchema(t *testing.T) string {
	t.Helper()
	known, err := filepath.Glob("../migrations/sqlite/*.sql")
	if err != nil || len(known) == 0 {
		t.Fatal(known, err)
	}
	dir := t.TempDir()
	step := filepath.Join(dir, "step.sql")
	const text = "-- +goose Up\nALTER TABLE topics ADD COLUMN next VARCHAR(8) NOT NULL DEFAULT '';\n"
	must(t, os.WriteFile(step, []byte(text), 0o600))
	replace := map[string]string{}
	for _, database := range []string{"mysql", "postgres", "sqlite"} {
		path, err := filepath.Abs(fmt.Sprintf("../migrations/%s/%05d_next.sql", database, len(known)+1))
		must(t, err)
		replace[path] = step
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	file := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(file, overlay, 0o600))
	return harness.Build(t, "-overlay", file, "-ldflags", "-s -w -X main.linked=9.9.9-next")
}

// TestVersionsWithDifferentSchemasWorkBesideEachOther, on one database and one Redis, both ways and under load: a
// command of the next version does not migrate, its processes do, the previous version starts on the newer schema, and
// a roll-back needs nothing else.
func TestVersionsWithDifferentSchemasWorkBesideEachOther(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	next := nextSchema(t)
	for _, database := range []string{"sqlite", "mariadb", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			opts := unhurried()
			if database != "sqlite" {
				_, opts = shared(t, dbtest.Servers[database](t))
				opts.Env["WAKECALL_REDIS_TIMEOUT"] = "20s"
			}
			opts.Binary = filepath.Join(t.TempDir(), "wakecall")
			replaceBinary(t, opts.Binary, harness.Binary(t))
			i := start(t, opts)
			other := i.Wakecall
			if database != "sqlite" {
				previous := opts
				previous.Binary = harness.Binary(t)
				other = harness.New(t, previous)
				other.Up()
				harness.Eventually(t, soon, "the other host to be ready", other.Readyz)
				harness.ShareToken(t, i.Wakecall, other)
			}
			topic := i.topic(t, nil, nil)
			ledger := harness.NewLedger()
			load := harness.StartLoad(t, i.Quick(), ledger,
				harness.LoadOptions{Topic: topic, Rate: 100, Fields: M{"delay": "50ms"}, PushFailed: noFailure(t)})
			ledger.WaitAcknowledged(t, 50)

			replaceBinary(t, opts.Binary, next)
			for _, command := range [][]string{{"token", "list"}, {"recover", "--dry-run"}} {
				if code, out := i.Run(command...); code == 0 || !strings.Contains(out, "migrate up") {
					t.Errorf("%v on the previous schema: exit code %d: %s", command, code, out)
				}
			}
			if code, out := i.Run("migrate", "status"); code != 1 || !strings.Contains(out, "missing") {
				t.Errorf("a command has migrated: exit code %d: %s", code, out)
			}
			i.reload(t)
			if code, out := i.Run("migrate", "status"); code != 0 {
				t.Errorf("the processes have not migrated: exit code %d: %s", code, out)
			}
			i.takesEdits(t, topic)
			if other != i.Wakecall { // the previous version starts on the next schema
				other.Signal(syscall.SIGTERM)
				other.WaitExit()
				other.Up()
				harness.Eventually(t, soon, "the previous version to be ready", other.Readyz)
			}
			ledger.WaitAcknowledged(t, 50)

			replaceBinary(t, opts.Binary, harness.Binary(t))
			i.reload(t)
			for _, command := range [][]string{{"token", "list"}, {"recover", "--dry-run"}, {"migrate", "up"}} {
				if code, out := i.Run(command...); code != 0 {
					t.Errorf("%v on the next schema: exit code %d: %s", command, code, out)
				}
			}
			i.takesEdits(t, topic)
			ledger.WaitAcknowledged(t, 50)
			load.Stop()
			ledger.Verdict(t, i.API, i.endpoint, 0)
			i.Signal(syscall.SIGTERM)
			i.WaitExit()
			i.Up()
			harness.Eventually(t, soon, "a restart on the next schema", i.Readyz)
			i.passes(t)
		})
	}
}

// reload sends SIGHUP and waits until all processes are new.
func (i *installation) reload(t *testing.T) {
	t.Helper()
	old := slices.DeleteFunc(i.Children(), func(pid int) bool { return slices.Contains(i.Role("redis"), pid) })
	i.Signal(syscall.SIGHUP)
	i.WaitRole("server", 1, old...)
	i.WaitRole("dispatcher", 2, old...)
	i.WaitRole("admin", 1, old...) // the last one
	i.waitEnded(t, old)
}
