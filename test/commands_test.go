package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// TestCommands: the command line offers what the API does, for scripts and for people.
func TestCommands(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	t.Run("topics are applied from YAML", i.applyTopics)
	t.Run("push, get, run, delete", i.commandJobs)
	t.Run("groups", i.commandGroups)
	t.Run("schedules", i.commandSchedules)
	t.Run("what goes wrong has an exit code", i.commandErrors)
	t.Run("shards, stats, migrations", i.commandViews)
}

func (i *installation) applyTopics(t *testing.T) {
	topic := topicName(t)
	file := filepath.Join(i.Dir, "topics.yaml")
	write := func(yaml string) {
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("name: %s\ncallback_url: %s\nttr: 3s\nretry: [1s, 2s]\n", topic, i.endpoint.URL("/")))
	i.succeeds(t, "topic", "apply", "-f", file)
	if out := i.succeeds(t, "topic", "show", topic); !strings.Contains(out, "3s") {
		t.Errorf("topic show prints\n%s", out)
	}
	write(fmt.Sprintf("name: %s\ncallback_url: %s\ncolour: red\n", topic, i.endpoint.URL("/")))
	if code, out := i.Run("topic", "apply", "-f", file); code == 0 || !strings.Contains(out, "colour") {
		t.Errorf("an unknown field: code %d\n%s", code, out)
	}
	if out := i.succeeds(t, "topic", "list"); !strings.Contains(out, topic) {
		t.Errorf("topic list prints\n%s", out)
	}
	i.succeeds(t, "topic", "delete", topic)
	if out := i.succeeds(t, "topic", "list"); strings.Contains(out, topic) {
		t.Errorf("after topic delete, topic list prints\n%s", out)
	}
}

func (i *installation) commandJobs(t *testing.T) {
	topic := i.topic(t, nil, nil)
	var j harness.Job
	out := i.succeeds(t, "push", topic, "--id", "x", "--delay", "1h", "--priority", "high", "--body", `{"a":1}`,
		"--output", "json")
	if err := json.Unmarshal([]byte(out), &j); err != nil || j.ID != "x" || j.Priority != "high" ||
		j.State != "delayed" {
		t.Errorf("push prints %s (%v)", out, err)
	}
	if out := i.succeeds(t, "get", topic, "x"); !strings.Contains(out, "delayed") {
		t.Errorf("get tells\n%s", out)
	}
	i.succeeds(t, "run", topic, "x")
	if c := i.endpoint.WaitCalls(t, topic, 1)[0]; string(c.Body) != `{"a":1}` {
		t.Errorf("called with %s", c.Body)
	}
	i.succeeds(t, "push", topic, "--id", "y", "--due", "2030-01-02T03:04:05Z")
	i.succeeds(t, "delete", topic, "y")
	i.waitGone(t, topic, "y")
}

func (i *installation) commandGroups(t *testing.T) {
	topic := i.topic(t, nil, nil)
	group := "of " + topic
	push := []string{"push", topic, "--group", group, "--delay", "1h"}
	i.succeeds(t, append(push, "--id", "x")...)
	i.succeeds(t, append(push, "--id", "y")...)
	due := i.MustGet(t, topic, "x").DueAt
	shift := []string{"group", "move", group, "--shift", "-15m", "--key", "once"}
	if out := i.succeeds(t, shift...); !strings.HasPrefix(out, "2 jobs") {
		t.Errorf("group move prints\n%s", out)
	}
	i.succeeds(t, shift...)
	if at := i.MustGet(t, topic, "x").DueAt; !at.Equal(due.Add(-15 * time.Minute)) {
		t.Errorf("it is due at %s, was at %s", at, due)
	}
	if out := i.succeeds(t, "get", topic, "x"); !strings.Contains(out, group) {
		t.Errorf("get prints\n%s", out)
	}
	if out := i.succeeds(t, "group", "cancel", group, "--close", "10m"); !strings.HasPrefix(out, "2 jobs") {
		t.Errorf("group cancel prints\n%s", out)
	}
	if code, out := i.Run(append(push, "--id", "z")...); code != 1 || !strings.HasPrefix(out, "wakecall: --group: ") {
		t.Errorf("a push into a closed group: code %d\n%s", code, out)
	}
	if out := i.succeeds(t, "group", "show", group); !strings.Contains(out, "closed until") || strings.Contains(out, "TOPIC") {
		t.Errorf("group show prints\n%s", out)
	}
}

func (i *installation) commandSchedules(t *testing.T) {
	topic, file := i.topic(t, nil, nil), filepath.Join(i.Dir, "schedules.yaml")
	prints := func(want string, args ...string) {
		t.Helper()
		if out := i.succeeds(t, append([]string{"schedule"}, args...)...); !strings.Contains(out, want) {
			t.Errorf("schedule %s prints\n%s", strings.Join(args, " "), out)
		}
	}
	yaml := fmt.Sprintf("schedule: %[1]s.report\ntopic: %[1]s\ncron: '0 8 * * 1-5'\ntime_zone: Asia/Shanghai\nbody: {n: '<1>'}\n"+
		"headers: {X-Team: shop}\njitter: 1m\nstart_at: 2026-01-01T08:00:00+08:00\n", topic)
	must(t, os.WriteFile(file, []byte(yaml), 0o600))
	name := topic + ".report"
	prints(name+" would be created", "apply", "-f", file, "--dry-run")
	prints(name+" created", "apply", "-f", file)
	prints(name+" unchanged", "apply", "-f", file)
	must(t, os.WriteFile(file, []byte(i.succeeds(t, "schedule", "show", name, "--yaml")), 0o600))
	prints(name+" unchanged", "apply", "-f", file)
	prints("0 8 * * 1-5 Asia/Shanghai", "list", "--topic", topic)
	prints("is paused until 2031-01-01T00:00:00.000Z", "pause", name, "--until", "2031-01-01T00:00:00Z")
	prints("changed (paused_until, state)", "apply", "-f", file, "--dry-run")
	prints("is active", "resume", name, "--catch-up")
	prints(topic+" "+name+"!", "run", name)
	if c := i.endpoint.WaitCalls(t, topic, 1)[0]; string(c.Body) != `{"n":"<1>"}` || c.Header.Get("Wakecall-Schedule") != name {
		t.Errorf("called with %s, %v", c.Body, c.Header)
	}
	fill := []string{"backfill", name, "--from", "2026-01-03T00:00:00Z", "--to", "2026-01-06T00:00:00Z"}
	prints("1 occurrence; none was pushed", append(fill, "--dry-run")...)
	prints("1 occurrence: 1 pushed, 0 existing, 0 left out", fill...)
	if c := i.endpoint.WaitCalls(t, topic, 2)[1]; c.ID != name+"@2026-01-05T00:00:00Z" ||
		c.Header.Get("Wakecall-Scheduled-For") != "2026-01-05T00:00:00.000Z" {
		t.Errorf("backfilled: %+v", c)
	}
	if code, out := i.Run("topic", "delete", topic, "--drop-jobs"); code != 1 || !strings.Contains(out, name) {
		t.Errorf("a topic that a schedule uses is deleted: code %d\n%s", code, out)
	}
	prints("deleted schedule "+name, "delete", name)
	if code, out := i.Run("schedule", "show", name); code != 1 || !strings.Contains(out, "schedule list") {
		t.Errorf("a deleted schedule: code %d\n%s", code, out)
	}
}

func (i *installation) commandErrors(t *testing.T) {
	for name, args := range map[string][]string{
		"unknown topic":   {"push", "no-such-topic", "--body", "1"},
		"unknown job":     {"get", "no-such-topic", "x"},
		"unknown command": {"pusch"},
		"unknown flag":    {"push", "x", "--dealy", "3s"},
		"bad body":        {"push", "no-such-topic", "--body", "{"},
		"wrong token":     {"topic", "list", "--token", "wrong"},
		"nobody there":    {"topic", "list", "--url", "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := i.Run(args...)
			if code <= 0 || !strings.HasPrefix(out, "wakecall: ") || strings.Contains(out, "goroutine ") {
				t.Errorf("code %d, want an error that begins with wakecall:\n%s", code, out)
			}
		})
	}
}

func (i *installation) commandViews(t *testing.T) {
	i.succeeds(t, "shard", "list")
	i.succeeds(t, "host", "list")
	i.succeeds(t, "stats")
	i.succeeds(t, "version")
	i.succeeds(t, "migrate", "status")
	i.succeeds(t, "config")
}

// TestDemoOfARunningInstallation: `wakecall demo` registers the topic and prints its callbacks until it is stopped.
func TestDemoOfARunningInstallation(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	cmd := i.Command("demo")
	demo := process.Start(t, t.TempDir(), "demo", cmd)
	harness.Eventually(t, soon, "the demo to say how to push", func() error {
		if log := demo.Log(0); !strings.Contains(log, "wakecall push demo --delay 5s") {
			return fmt.Errorf("it says\n%s", log)
		}
		return nil
	})
	i.succeeds(t, "push", "demo", "--id", "watch-me", "--body", `{"order":42}`)
	harness.Eventually(t, soon, "the callback to show", func() error {
		if log := demo.Log(0); !strings.Contains(log, "watch-me  attempt 1") || !strings.Contains(log, `{"order":42}`) {
			return fmt.Errorf("it shows\n%s", log)
		}
		return nil
	})
	demo.Signal(syscall.SIGINT)
	if code := demo.WaitExit(); code != 0 {
		t.Errorf("exit code %d after an interrupt", code)
	}
	i.succeeds(t, "topic", "delete", "demo")
}

// succeeds runs a command that must succeed, and returns its output.
func (i *installation) succeeds(t *testing.T, args ...string) string {
	t.Helper()
	code, out := i.Run(args...)
	if code != 0 {
		t.Fatalf("wakecall %s: code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// TestDemo: `make run` prints how to push, and shows the callback.
func TestDemo(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	w := harness.StartWakecall(t, harness.Options{Args: []string{"--demo"}})
	harness.Eventually(t, soon, "the demo to print how to push", func() error {
		if log := w.Log(0); !strings.Contains(log, "curl ") || !strings.Contains(log, "/v1/topics/demo/jobs") {
			return fmt.Errorf("it tells\n%s", log)
		}
		return nil
	})
	w.MustPush(t, "demo", M{"id": "watch-me", "body": M{"hello": "world"}, "delay": "300ms"})
	harness.Eventually(t, soon, "the callback to show", func() error {
		if log := w.Log(0); !strings.Contains(log, "watch-me") || !strings.Contains(log, `{"hello":"world"}`) {
			return fmt.Errorf("it shows\n%s", log)
		}
		return nil
	})
	if log := w.Log(0); strings.Contains(log, "compared with the journals") {
		t.Errorf("a first start, with nothing to compare, shows\n%s", log)
	}
	w.Signal(syscall.SIGINT)
	if code := w.WaitExit(); code != 0 {
		t.Errorf("exit code %d after an interrupt", code)
	}
	if left := w.Children(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// TestCommandsFindTheInstallation by its data directory, although it has other ports than the default.
func TestCommandsFindTheInstallation(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	cmd := exec.Command(harness.Binary(t), "push", topic, "--data-dir", i.Data)
	cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRolesRunAlone in the foreground, as containers and systemd run them.
func TestRolesRunAlone(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	w := harness.New(t, onRedis(harness.StartRedis(t, harness.RedisOptions{})))
	var roles []*process.Process
	for _, role := range []string{"server", "timer", "dispatcher", "redis-checker"} {
		roles = append(roles, w.StartRole(role))
	}
	w.WaitReady()
	i := &installation{w, harness.StartEndpoint(t)}
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	for n := range 20 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), M{"delay": fmt.Sprintf("%dms", 20*n)})
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
	for n, r := range roles {
		r.Signal(syscall.SIGTERM)
		if code := r.WaitExit(); code != 0 {
			t.Errorf("role %d: exit code %d after SIGTERM", n, code)
		}
	}
}

// TestOneRoleAloneNeedsNoOther: a server accepts pushes on a Redis that no other process has used, from its first
// request on, also after Redis has lost everything; a dispatcher calls ready jobs.
func TestOneRoleAloneNeedsNoOther(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	w := harness.New(t, onRedis(r))
	server := w.StartRole("server")
	w.WaitReady()
	i := &installation{w, harness.StartEndpoint(t)}
	topic := i.topic(t, nil, nil)
	i.MustPush(t, topic, M{"id": "first", "body": 1, "delay": "1h"})
	r.Lose()
	r.Restart()
	i.waitState(t, topic, "first", "delayed")
	server.Signal(syscall.SIGTERM)
	if code := server.WaitExit(); code != 0 {
		t.Errorf("the server's exit code is %d", code)
	}
	r.Lose()
	r.Restart()
	w.StartRole("dispatcher")
	w.StartRole("server")
	w.WaitReady()
	i.waitState(t, topic, "first", "delayed")
	i.MustPush(t, topic, M{"id": "now", "body": 1})
	i.endpoint.WaitCalls(t, topic, 1)
}

// TestJournal: every accepted push and every attempt is in the files of the day.
func TestJournal(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, harness.FirstCalls(1, harness.Status(409), harness.Status(200)), M{"retry": []string{"50ms"}})
	const jobs = 20
	for n := range jobs {
		i.MustPush(t, topic, M{"id": fmt.Sprint("job-", n), "body": M{"n": n}})
	}
	for n := range jobs {
		i.waitGone(t, topic, fmt.Sprint("job-", n))
	}
	pushes := i.journal(t, "request", topic)
	if len(pushes) != jobs {
		t.Errorf("request-*.jsonl has %d lines of the topic, want %d", len(pushes), jobs)
	}
	for _, line := range pushes {
		if !strings.Contains(string(line), `n\":`) { // a body is a string in it
			t.Errorf("a push without its body: %s", line)
		}
	}
	harness.Eventually(t, soon, "all attempts to be written", func() error {
		return harness.Equal("lines of notify-*.jsonl", len(i.journal(t, "notify", topic)), 2*jobs)
	})
}

// journal returns the lines of one kind that contain a topic. Each line must be JSON.
func (i *installation) journal(t *testing.T, kind, topic string) (lines []json.RawMessage) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(i.Data, "journal", kind+"-????????.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no %s-YYYYMMDD.jsonl in %s (%v)", kind, i.Data, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: a line is not JSON: %s", file, line)
			}
			if strings.Contains(line, `"`+topic+`"`) {
				lines = append(lines, json.RawMessage(line))
			}
		}
	}
	return lines
}

// TestDeploymentConfiguration: this version accepts the example for production.
func TestDeploymentConfiguration(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	w := harness.New(t, harness.Options{})
	example, err := filepath.Abs("../deploy/wakecall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if code, out := w.Run("config", "--config", example); code != 0 {
		t.Errorf("code %d\n%s", code, out)
	} else if strings.Contains(out, "CHANGE-ME") {
		t.Errorf("wakecall config shows a password:\n%s", out)
	}
}
