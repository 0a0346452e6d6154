package test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/smtptest"
)

// TestACrashShowsNoSecret: every process holds secrets and is aborted, so that the stack traces of all its goroutines
// go to the log. No secret is in them, nor in the arguments of any process, which others may read (ps), nor in its
// environment, which a crash report may contain.
func TestACrashShowsNoSecret(t *testing.T) {
	t.Parallel()
	smtp := smtptest.Start(t)
	r := harness.StartRedis(t, harness.RedisOptions{Password: marked["Redis password"]})
	opts := onRedis(r)
	opts.Env["WAKECALL_LOG_LEVEL"] = "debug"
	opts.Env["WAKECALL_TOKEN"] = "MARKclitoken8d31"
	i := start(t, opts)
	i.mailing(t, smtp, func(s *alert.Settings) {
		s.Mail.Password = seal.Text(marked["SMTP password"])
		s.Webhooks = []alert.Webhook{{Name: "chat", Preset: "slack",
			URL: seal.Text("http://127.0.0.1:1/" + marked["webhook address"])}}
	})
	said := &strings.Builder{}
	i.failWithSecrets(t, said)
	key, err := os.ReadFile(filepath.Join(i.Data, "secret-key"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := map[string]string{"CLI token": opts.Env["WAKECALL_TOKEN"], "secret key": strings.TrimSpace(string(key))}
	maps.Copy(secrets, marked)
	maps.Copy(secrets, i.madeSecrets(t))
	checkStartedWith(t, i.Children(), secrets)
	for role, n := range map[string]int{"server": 1, "timer": 1, "dispatcher": 2, "redis-checker": 1, "admin": 1} {
		pids := i.Role(role)
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGABRT); err != nil {
				t.Errorf("%s: %v", role, err)
			}
		}
		checkStartedWith(t, i.WaitRole(role, n, pids...), secrets)
	}
	i.Signal(syscall.SIGABRT)
	i.WaitExit()
	log := i.Log(0)
	if n := strings.Count(log, "SIGABRT: abort"); n != 7 {
		t.Errorf("the log has the traces of %d processes, want 7", n)
	}
	for what, secret := range secrets {
		if k := strings.Index(log+said.String(), secret); k >= 0 {
			t.Errorf("the %s is in the log: …%s…", what, (log + said.String())[max(0, k-200):k])
		}
	}
}

// checkStartedWith looks for secrets in the arguments and the environment of processes.
func checkStartedWith(t *testing.T, pids []int, secrets map[string]string) {
	t.Helper()
	if len(pids) == 0 {
		t.Fatal("there are no processes")
	}
	for _, pid := range pids {
		for _, file := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				t.Error(err)
			}
			for what, secret := range secrets {
				if bytes.Contains(b, []byte(secret)) {
					t.Errorf("the %s is in the %s of process %d", what, file, pid)
				}
			}
			if file == "environ" && bytes.Contains(b, []byte("WAKECALL_SERVER_ADDR")) {
				t.Errorf("process %d has configuration in its environment", pid)
			}
		}
	}
}

// TestFilesArePrivateUnderAnyUmask, even if data_dir was created by somebody else and is open to all: its contents are
// private to the user, including the sockets, from the first start to the last line of the journal.
func TestFilesArePrivateUnderAnyUmask(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	opts := harness.Options{Umask: "000",
		Env: map[string]string{"WAKECALL_JOURNAL_SYNC": "always", "WAKECALL_SPOOL": "on"}}
	w := harness.New(t, opts)
	if err := os.MkdirAll(w.Data, 0o777); err != nil {
		t.Fatal(err)
	}
	w.Up()
	w.WaitReady()
	i := &installation{w, harness.StartEndpoint(t)}
	topic := i.topic(t, nil, nil)
	i.MustPush(t, topic, M{"id": "a", "body": "secret"})
	i.endpoint.WaitCalls(t, topic, 1)
	for _, pid := range i.Role("redis") {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	i.Push(ctx, topic, M{"id": "spooled", "body": "secret"})
	for _, pid := range i.Role("redis") {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	if code, out := i.Run("recover", "--dry-run"); code != 0 {
		t.Errorf("recover: %s", out)
	}
	check := func() {
		seen := map[string]bool{}
		err := filepath.WalkDir(i.Data, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) || path == i.Data {
				return nil // a temporary file that has been renamed
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %s", path, info.Mode())
			}
			seen[filepath.Base(path)] = true
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		for _, name := range []string{"api-token", "admin-password", "secret-key", "registry.db",
			"registry-snapshot.json",
			"journal", "redis"} {
			if !seen[name] {
				t.Errorf("there is no %s among %v", name, seen)
			}
		}
	}
	check()
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	check()
}

// TestUntrustedTextForgesNoLine: ids, bodies, titles and an endpoint's answers that contain line breaks and escapes are
// pushed, called, become dead, and are printed by every command. Each line of logs and journals is one event, and no
// output contains terminal control sequences.
func TestUntrustedTextForgesNoLine(t *testing.T) {
	t.Parallel()
	const words = "\n{\"ts\":\"2026\",\"op\":\"delete\",\"FORGED\":1}\r\nFORGED " +
		"level=ERROR\x1b[2J\u009b2J\u2028FORGED\u0085FORGED\u202e\x00"
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_LOG_FORMAT": "json", "WAKECALL_LOG_LEVEL": "debug"}})
	topic := i.topic(t, harness.Text(500, words+"\xff\xfe"),
		M{"max_attempts": 1, "title": "\u2028FORGED\u202e title", "owner": "\u2028FORGED"})
	ids := []string{`"} FORGED level=ERROR`, `{"FORGED":1} x=1 "`, strings.Repeat("é", 64)}
	for _, id := range ids {
		i.MustPush(t, topic, M{"id": id, "body": M{words: words}})
	}
	for _, id := range ids {
		i.waitState(t, topic, id, "dead")
	}
	refused := i.Push(ctx, topic, M{"id": "a" + words, "body": 1})
	if refused.Status != 400 {
		t.Errorf("an id with line breaks: %s", refused)
	}
	for _, args := range [][]string{
		{"get", topic, ids[0]}, {"get", topic, ids[1], "-o", "json"}, {"list", topic, "--state", "dead"},
		{"list", topic, "--state", "dead", "-o", "json"}, {"topic", "list"}, {"topic", "show", topic, "-o", "json"},
		{"stats"}, {"ps"}, {"check"}, {"recover", "--dry-run"}, {"run", topic, ids[2]},
		{"get", topic, words[1:20] + "x"},
		{"delete", topic, ids[0]},
	} {
		_, out := i.Run(args...)
		for _, steering := range []string{"\x1b", "\u009b", "\u2028", "\u0085", "\u202e", "\r", "\nFORGED",
			"\n{\"ts\":\"2026\",\"op\":\"delete\""} {
			if strings.Contains(out, steering) {
				t.Errorf("wakecall %q prints %q:\n%q", args, steering, out)
			}
		}
	}
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	texts := map[string]string{"the log": i.Log(0)}
	files, err := filepath.Glob(filepath.Join(i.Data, "journal", "*.jsonl"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[file] = string(b)
	}
	for where, text := range texts {
		for line := range strings.Lines(text) {
			var event map[string]any
			if json.Unmarshal([]byte(line), &event) != nil || event["FORGED"] != nil ||
				strings.ContainsAny(strings.TrimSuffix(line, "\n"), "\x1b\u009b\u2028\u0085\r") {
				t.Errorf("%s has the line %q", where, line)
			}
		}
	}
}

// TestPromisesNameTheirTests: the tests that the documents name for their promises exist, so that renaming or removing
// one fails.
func TestPromisesNameTheirTests(t *testing.T) {
	t.Parallel()
	have := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return cmp.Or(err, fs.SkipDir)
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		for _, found := range declared.FindAllSubmatch(b, -1) {
			have[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{"reliability-report.md", "operations/backup.md", "reference/gateways.md"} {
		b, err := os.ReadFile(filepath.Join("..", "docs", doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+…?`).FindAllString(string(b), -1) {
			begin, several := strings.CutSuffix(name, "…")
			found := have[begin]
			for known := range have {
				found = found || several && strings.HasPrefix(known, begin)
			}
			if !found {
				t.Errorf("docs/%s names %s, which does not exist", doc, name)
			}
		}
	}
}
