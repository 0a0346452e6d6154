package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/master"
)

func TestMigrate(t *testing.T) {
	t.Chdir(t.TempDir())
	if got := here(nil, "", "migrate", "up"); got.code != 0 || !strings.Contains(got.out, "applied") ||
		!strings.Contains(got.out, "up to date") {
		t.Errorf("up: code %d: %s%s", got.code, got.out, got.err)
	}
	got := here(nil, "", "migrate", "status", "-o", "json")
	var steps []struct{ Applied bool }
	if err := json.Unmarshal([]byte(got.out), &steps); err != nil || len(steps) == 0 || !steps[0].Applied {
		t.Errorf("status: %v: %s%s", err, got.out, got.err)
	}
}

func TestMigrateWithTheDatabaseAway(t *testing.T) {
	got := wakecall(t, []string{"WAKECALL_REGISTRY_DSN=mysql://u:hidden@tcp(127.0.0.1:1)/w"}, "", "migrate", "status")
	if got.code != 1 || !strings.Contains(got.err, "127.0.0.1:1") || strings.Contains(got.err, "hidden") ||
		!strings.Contains(got.err, "registry.dsn") {
		t.Errorf("code %d: %s", got.code, got.err)
	}
}

func TestShardsAreKeptInTheRegistry(t *testing.T) {
	t.Chdir(t.TempDir())
	steps := []struct {
		input string
		args  []string
		code  int
		says  string
	}{
		{"", []string{"put", "redis-1"}, 2, "--url"},
		{"", []string{"put", "redis-1", "--url", "http://x"}, 2, "redis://"},
		{"", []string{"put", "Redis 1", "--url", "redis://127.0.0.1:1"}, 1, "Redis 1"},
		{"redis://:hidden@127.0.0.1:1/0\n", []string{"put", "redis-1", "--url", "-"}, 0,
			"redis-1 (redis://:***@127.0.0.1:1/0, active) saved"},
		{"", []string{"put", "redis-1", "--state", "asleep"}, 1, "asleep"},
		{"", []string{"delete", "redis-1"}, 1, "wakecall shard drain redis-1"},
		{"", []string{"drain", "redis-1"}, 1, "wakecall shard add"},
		{"", []string{"add", "redis-1", "--url", "redis://127.0.0.1:1"}, 1, "already"},
		{"", []string{"put", "redis-1", "--state", "offline"}, 0, "offline) saved"},
		{"", []string{"delete", "redis-1"}, 0, "removed"},
		{"", []string{"delete", "redis-1"}, 1, "no such shard"},
	}
	for _, s := range steps {
		got := here(nil, s.input, append([]string{"shard"}, s.args...)...)
		if got.code != s.code || !strings.Contains(got.out+got.err, s.says) {
			t.Errorf("%v: code %d, want %d and %q: %s%s", s.args, got.code, s.code, s.says, got.out, got.err)
		}
		if strings.Contains(got.out+got.err, "hidden") {
			t.Errorf("%v shows the password: %s%s", s.args, got.out, got.err)
		}
	}
}

// TestAddingAShardThatDoesNotAnswerWarns: the shard may be started later, but a mistyped port should not first be
// noticed by an alert.
func TestAddingAShardThatDoesNotAnswerWarns(t *testing.T) {
	t.Chdir(t.TempDir())
	got := here(nil, "", "shard", "add", "redis-1", "--url", "redis://127.0.0.1:1")
	if got.code != 0 || !strings.Contains(got.err, "redis-1") || !strings.Contains(got.err, "connection refused") {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
	if got := here(nil, "", "shard", "put", "redis-1", "--state", "offline"); got.code != 0 || got.err != "" {
		t.Errorf("offline: code %d: %s%s", got.code, got.out, got.err)
	}
}

func findingOf(findings []setup.Finding, what string) setup.Finding {
	for _, f := range findings {
		if strings.HasPrefix(f.What, what) {
			return f
		}
	}
	return setup.Finding{}
}

func runCheck(t *testing.T, env ...string) (ran, []setup.Finding) {
	t.Helper()
	got := here(append(env, "WAKECALL_SERVER_ADDR=127.0.0.1:0", "WAKECALL_METRICS_ADDR=127.0.0.1:0",
		"WAKECALL_ADMIN_ADDR=127.0.0.1:0"), "", "check", "-o", "json")
	var findings []setup.Finding
	if err := json.Unmarshal([]byte(got.out), &findings); err != nil {
		t.Fatalf("%v: %s%s", err, got.out, got.err)
	}
	return got, findings
}

func TestCheckBeforeTheFirstStart(t *testing.T) {
	t.Chdir(t.TempDir())
	bin := t.TempDir()
	fake := filepath.Join(bin, "redis-server")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho Redis server v=7.0.15 sha=0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, findings := runCheck(t, "WAKECALL_REDIS_BINARY="+fake)
	if got.code != 0 {
		t.Errorf("code %d: %+v", got.code, findings)
	}
	for what, want := range map[string]string{
		"data_dir": "first start", "registry": "first start", "redis": "7.0.15", "callback.networks": "any",
		"server.addr": "free",
	} {
		if f := findingOf(findings, what); f.Verdict != setup.Good || !strings.Contains(f.Detail, want) {
			t.Errorf("%s: %+v", what, f)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
		t.Errorf("the check left %v, %v", entries, err)
	}
}

// TestCheckFindsThatThereIsNoShard: it says that there is no shard, because the redis-server of the first start is not
// registered again.
func TestCheckFindsThatThereIsNoShard(t *testing.T) {
	t.Chdir(t.TempDir())
	cfg, err := conf.Load(conf.LoadOptions{Env: []string{"WAKECALL_REDIS_NODES=redis://127.0.0.1:1"}})
	if err == nil {
		_, err = setup.Prepare(t.Context(), cfg, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, findings := runCheck(t); findingOf(findings, "redis.nodes").What != "" {
		t.Errorf("without redis.nodes the check finds %+v", findings)
	}
	if got := here(nil, "", "shard", "delete", "redis-1", "--force"); got.code != 0 {
		t.Fatal(got.err)
	}
	got, findings := runCheck(t)
	if f := findingOf(findings, "redis"); got.code != 1 || f.Verdict != setup.Failed ||
		!strings.Contains(f.Advice, "wakecall shard add") {
		t.Errorf("code %d: %+v", got.code, findings)
	}
	var log strings.Builder
	if _, err := setup.Prepare(t.Context(), cfg, slog.New(slog.NewTextHandler(&log, nil))); err != nil ||
		!strings.Contains(log.String(), "wakecall shard add") {
		t.Errorf("the start returned %v and logged %s", err, &log)
	}
}

func TestCheckNamesTheProblem(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("data", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got, findings := runCheck(t, "WAKECALL_REDIS_NODES=redis://:hidden@127.0.0.1:1/0",
		"WAKECALL_REGISTRY_DSN=mysql://u:hidden@tcp(127.0.0.1:1)/w",
		"WAKECALL_CALLBACK_NETWORKS=public")
	if got.code != 1 || strings.Contains(got.out, "hidden") {
		t.Errorf("code %d: %s", got.code, got.out)
	}
	for what, want := range map[string]string{"data_dir": "not a directory", "registry": "127.0.0.1:1",
		"redis redis-1": "127.0.0.1:1"} {
		if f := findingOf(findings, what); f.Verdict != setup.Failed || !strings.Contains(f.Detail, want) ||
			f.Advice == "" {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

func TestTreeTable(t *testing.T) {
	tree := &master.Tree{Pid: 100, Version: "v1.0.0", StartedAt: testNow.Add(-time.Hour), RSS: 30 << 20,
		Processes: []master.Process{
			{Role: "server", Pid: 101, Version: "v1.1.0", State: "running", StartedAt: testNow.Add(-time.Minute),
				RSS: 40 << 20},
			{Role: "dispatcher", Number: 1, Pid: 102, State: "running", StartedAt: testNow.Add(-time.Minute),
				Restarts: 2,
				LastExit: "signal: killed",
				RSS:      50 << 20, Status: json.RawMessage(`{"in_flight":17,"concurrency":256}`)},
			{Role: "timer", Number: 1, State: "waiting", Restarts: 9, LastExit: "exit status 1"},
			{Role: "redis-checker", Pid: 104, State: "running", StartedAt: testNow.Add(-time.Minute), RSS: 20 << 20,
				Status: json.RawMessage(`{"findings":[{"shard":"main","kind":"memory",
				"detail":{"args":["90 % of maxmemory"]},"since":"2026-01-02T03:00:00Z"}],
				"services":[{"name":"alerts","state":"running","restarts":1,"error":"gone by now"},
				{"name":"draining","state":"waiting","restarts":4,"error":"no host name"}]}`)},
			{Role: "gateway", Pid: 106, State: "running", StartedAt: testNow.Add(-time.Minute), RSS: 20 << 20,
				Status: json.RawMessage(`{"connections":{"phpdq":12,"lmstfy":1}}`)},
			{Role: "redis-server", Pid: 105, State: "adopted", StartedAt: testNow.Add(-48 * time.Hour), RSS: 1 << 30},
		}}
	var b strings.Builder
	if err := treeTable(&b, tree, testNow); err != nil {
		t.Fatal(err)
	}
	golden(t, "ps.table", b.String())
}

func TestPsWithoutAMaster(t *testing.T) {
	got := wakecall(t, nil, "", "ps")
	if got.code != 1 || !strings.Contains(got.err, "wakecall up") {
		t.Errorf("code %d: %s", got.code, got.err)
	}
}

// TestHealthWithAConfigurationThatHasErrors: somebody edits it, or a ConfigMap with an error reaches the pods that run.
// A probe that failed then would take all hosts out of service.
func TestHealthWithAConfigurationThatHasErrors(t *testing.T) {
	dir := t.TempDir()
	stop, err := master.ServeAlone(dir, "timer", func() master.Process {
		return master.Process{State: master.StateRunning}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	inFile := filepath.Join(t.TempDir(), "wakecall.yaml")
	if err := os.WriteFile(inFile, []byte("data_dir: "+dir+"\ntimers: many\nunknown: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, env := range [][]string{
		{"WAKECALL_DATA_DIR=" + dir, "WAKECALL_CONFIG=" + filepath.Join(dir, "missing.yaml")},
		{"WAKECALL_DATA_DIR=" + dir, "WAKECALL_TIMERS=many"},
		{"WAKECALL_CONFIG=" + inFile},
	} {
		if got := wakecall(t, env, "", "health"); got.code != 0 || got.out != "ready: timer\n" {
			t.Errorf("%s: code %d: %s%s", env, got.code, got.out, got.err)
		}
		if got := wakecall(t, env, "", "ps"); got.code != 1 || !strings.Contains(got.err, "no master answers") {
			t.Errorf("ps with %s: code %d: %s%s", env, got.code, got.out, got.err)
		}
	}
	// The file may name another data_dir.
	got := wakecall(t, []string{"WAKECALL_CONFIG=" + filepath.Join(dir, "missing.yaml")}, "", "health")
	if got.code != 2 || !strings.Contains(got.err, "missing.yaml") {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
}
