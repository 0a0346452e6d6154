package test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/ledger"
	"github.com/wakecall/wakecall/test/harness/process"
)

// TestBackup: a backup by the commands of docs/operations/backup.md while Wakecall works, and a restore by them on an
// empty machine, keep every job that was accepted before the journal was copied.
func TestBackup(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	t.Run("managed Redis and SQLite", func(t *testing.T) {
		t.Parallel()
		testBackup(t, &backup{redis: "Redis, managed by Wakecall", registry: "Registry, SQLite"}, harness.Options{})
	})
	t.Run("Redis and MariaDB", func(t *testing.T) {
		t.Parallel()
		db := dbtest.StartServer(t)
		r, opts := shared(t, db)
		testBackup(t, &backup{
			redis: "Redis, your own", registry: "Registry, MySQL or MariaDB", server: r, account: db.ClientConfig(),
			drop: func() { db.Exec(t, "", "DROP DATABASE wakecall") },
		}, opts)
	})
	t.Run("Redis and PostgreSQL", func(t *testing.T) {
		t.Parallel()
		db := dbtest.StartPostgres(t)
		r, opts := shared(t, db)
		testBackup(t, &backup{
			redis: "Redis, your own", registry: "Registry, PostgreSQL", server: r, env: db.ClientEnv(),
			drop: func() { db.Exec(t, "postgres", "DROP DATABASE wakecall WITH (FORCE)") },
		}, opts)
	})
}

func testBackup(t *testing.T, b *backup, opts harness.Options) {
	b.t, b.dir, b.home = t, process.Dir(t, "backup"), t.TempDir()
	page, err := os.ReadFile("../docs/operations/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	save, restore, found := strings.Cut(string(page), "\n## Restore everything\n")
	if !found {
		t.Fatal("the page has no section Restore everything")
	}
	if b.account != "" {
		if err := os.WriteFile(filepath.Join(b.home, ".my.cnf"), []byte(b.account), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	i := start(t, opts)
	s := fillForBackup(t, i)
	pushed := harness.NewLedger()
	quick := topicName(t)
	i.put(t, quick, nil, M{"retry": []string{"100ms"}, "ttr": "5s"})
	load := harness.StartLoad(t, i.Quick(), pushed, harness.LoadOptions{Topic: quick, Fields: M{"delay": "2s"}})
	pushed.WaitAcknowledged(t, 300)

	b.data = i.Data
	b.run(save, "Where")
	b.run(save, b.redis)
	for n := range 3 { // between the copies: the journal must bring the older Redis up to date
		id := fmt.Sprint("deleted-", n)
		i.MustDo(t, http.StatusNoContent, http.MethodDelete, harness.JobPath(s.topic, id), nil)
	}
	i.MustPush(t, s.topic, M{"id": "between", "body": "new", "delay": "1h"})
	i.MustDo(t, http.StatusOK, http.MethodPatch, harness.JobPath(s.topic, "changed"), M{"body": "new"})
	s.die(t, "died-between")
	pushed.WaitAcknowledged(t, 100)
	copied := time.Now()
	b.run(save, "Journal and key")
	b.run(save, b.registry)
	load.Stop()

	i.Kill9()
	b.destroy(i)
	i = &installation{harness.New(t, opts), i.endpoint}
	b.data = i.Data
	for _, name := range []string{"Where", "Journal and key", b.redis, b.registry, "Start"} {
		b.run(restore, name)
	}
	destroyed := time.Now()
	i.Up()
	i.WaitReady()
	s.check(t, i)
	copiedUpTo(pushed, copied).Verdict(t, i.API, i.endpoint, callsSince(i.endpoint, copied, destroyed))
	i = b.move(restore, i, opts, s)
	if b.server == nil {
		return
	}
	later := s.topic + ".later"
	i.put(t, later, nil, nil)
	for _, part := range []string{b.redis, b.registry} { // alone, while Wakecall runs
		b.run(restore, part)
		s.check(t, i)
	}
	harness.Eventually(t, soon, "the restored registry to be read", func() error {
		answer := i.Do(ctx, http.MethodGet, "/v1/topics/"+later, nil)
		return harness.Equal("status of a topic that is not in the backup", answer.Status, http.StatusNotFound)
	})
}

// move moves the installation to another directory by the commands of the page.
func (b *backup) move(page string, i *installation, opts harness.Options, s *saved) *installation {
	b.t.Helper()
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	to := &installation{harness.New(b.t, opts), i.endpoint}
	if err := os.Mkdir(to.Data, 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.sh(strings.NewReplacer("ssh new-host tar -C /var/lib/wakecall", "tar -C "+to.Data, "/var/lib/wakecall", i.Data).
		Replace(b.block(page, "Move")))
	to.Up()
	to.WaitReady()
	s.check(b.t, to)
	tellsNoLoss(b.t, to.Wakecall)
	return to
}

// copiedUpTo returns the ledger of a load of which only what was answered before a time must be in the backup.
func copiedUpTo(l *harness.Ledger, at time.Time) *harness.Ledger {
	promised := harness.NewLedger()
	for _, e := range l.Events() {
		if e.End > ledger.MS(at) {
			e.Result, e.SetsDue = ledger.Unknown, false
		}
		promised.Add(e)
	}
	return promised
}

// callsSince counts the calls that a copy of the journal may not have: those that were being made, on a busy machine for
// seconds, or came later.
func callsSince(e *harness.Endpoint, copied, destroyed time.Time) (n int) {
	for _, c := range e.Calls("") {
		if c.At.After(copied.Add(-5*time.Second)) && c.At.Before(destroyed) {
			n++
		}
	}
	return n
}

// backup runs the commands of the page.
type backup struct {
	t               *testing.T
	dir, home       string // the backup; of the user who has the account of the database
	data            string // data_dir
	redis, registry string // names of the commands for them
	server          *harness.Redis
	account         string   // of MariaDB's user
	env             []string // of PostgreSQL's programs
	drop            func()   // drops the database
}

var commands = regexp.MustCompile("(?s)```sh\n# (.+?)\n(.*?)```")

// block returns the commands under a name.
func (b *backup) block(page, name string) string {
	b.t.Helper()
	for _, m := range commands.FindAllStringSubmatch(page, -1) {
		if m[1] == name {
			return m[2]
		}
	}
	b.t.Fatalf("the page has no commands %q", name)
	return ""
}

// run runs the commands under a name.
func (b *backup) run(page, name string) {
	b.t.Helper()
	if name == "Where" {
		b.sh("mkdir -p " + b.dir + " " + b.data)
		return
	}
	text := b.block(page, name)
	if b.server != nil {
		text = strings.NewReplacer("redis://10.0.0.7:6379", "redis://"+b.server.Addr(), "/var/lib/redis", b.server.Dir()).
			Replace(text)
	}
	b.sh("data=" + b.data + " backup=" + b.dir + "\n" + text)
}

// sh runs commands, apart from those for services and users that only a whole machine has.
func (b *backup) sh(text string) {
	b.t.Helper()
	var kept []string
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "systemctl start redis-server"):
			defer b.server.Restart()
		case strings.HasPrefix(line, "systemctl stop redis-server"):
			b.server.Shutdown()
		case strings.HasPrefix(line, "systemctl ") || strings.HasPrefix(line, "chown "):
		default:
			kept = append(kept, line)
		}
	}
	cmd := exec.Command("/bin/sh", "-euc", "umask 077\n"+strings.Join(kept, ""))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home}, b.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("%s\n%v: %s", text, err, out)
	}
}

// destroy removes everything but the backup.
func (b *backup) destroy(i *installation) {
	b.t.Helper()
	for _, pid := range i.Children() {
		process.Kill9(b.t, pid)
	}
	if err := os.RemoveAll(i.Data); err != nil {
		b.t.Fatal(err)
	}
	if b.server != nil {
		b.server.Do("FLUSHALL")
		b.drop()
	}
}

// saved is what the backup must hold beside the jobs of the load.
type saved struct {
	*installation
	topic, deadTopic, signed, secret, token string
}

func fillForBackup(t *testing.T, i *installation) *saved {
	s := &saved{installation: i, topic: "held." + topicName(t), secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	s.deadTopic, s.signed = s.topic+".dead", s.topic+".signed"
	i.put(t, s.topic, nil, nil)
	i.put(t, s.deadTopic, harness.Status(http.StatusGone), nil)
	i.put(t, s.signed, nil, M{"secrets": []string{s.secret}})
	i.MustPush(t, s.topic, M{"id": "finished", "body": 1})
	i.waitState(t, s.topic, "finished", "done")
	i.put(t, s.topic, nil, M{"state": "paused"})
	i.MustPush(t, s.topic, M{"id": "ready", "body": strings.Repeat("long ", 200)})
	i.MustPush(t, s.topic, M{"id": "delayed", "body": "text", "delay": "1h"})
	i.MustPush(t, s.topic, M{"id": "changed", "body": "old", "delay": "1h"})
	for n := range 3 {
		i.MustPush(t, s.topic, M{"id": fmt.Sprint("deleted-", n), "body": 1, "delay": "1h"})
	}
	s.die(t, "dead")
	var made struct{ Token string }
	answer := i.MustDo(t, http.StatusCreated, http.MethodPost, "/v1/tokens",
		M{"name": "reader", "rights": []string{"read"}, "topics": []string{"*"}})
	if err := answer.JSON(&made); err != nil || made.Token == "" {
		t.Fatalf("a token: %s", answer)
	}
	s.token = made.Token
	return s
}

func (s *saved) die(t *testing.T, id string) {
	t.Helper()
	s.MustPush(t, s.deadTopic, M{"id": id, "body": 1})
	s.waitState(t, s.deadTopic, id, "dead")
}

// check checks that an installation has everything.
func (s *saved) check(t *testing.T, i *installation) {
	t.Helper()
	for id, state := range map[string]string{
		"finished": "done", "ready": "ready", "delayed": "delayed", "between": "delayed", "changed": "delayed",
	} {
		i.waitState(t, s.topic, id, state)
	}
	if got := i.MustGet(t, s.topic, "changed"); string(got.Body) != `"new"` {
		t.Errorf("the changed job has the body %s", got.Body)
	}
	for _, id := range []string{"dead", "died-between"} {
		if j := i.waitState(t, s.deadTopic, id, "dead"); len(j.History) != 1 {
			t.Errorf("%s has the attempts %+v", id, j.History)
		}
	}
	for n := range 3 {
		i.MustDo(t, http.StatusNotFound, http.MethodGet, harness.JobPath(s.topic, fmt.Sprint("deleted-", n)), nil)
	}
	answer := harness.NewAPI(i.Base, s.token).Do(ctx, http.MethodGet, harness.JobPath(s.topic, "ready"), nil)
	if answer.Status != http.StatusOK {
		t.Errorf("the restored token: %s", answer)
	}
	before := len(i.endpoint.Calls(s.signed))
	i.MustPush(t, s.signed, M{"body": 1})
	call := i.endpoint.WaitCalls(t, s.signed, before+1)[before]
	if err := verifies(s.secret, call); err != nil {
		t.Errorf("the signature by the restored secret: %v", err)
	}
}

func verifies(secret string, c harness.Call) error {
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	return wh.Verify(c.Body, c.Header)
}
