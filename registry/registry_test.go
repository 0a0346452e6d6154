package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// database is a private MariaDB on a Unix socket.
type database struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	dsn  string
	args []string
}

func startMariaDB(t *testing.T) *database {
	dir, err := os.MkdirTemp("", "wkr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := &database{t: t, dir: dir, dsn: "mysql://root@unix(" + dir + "/s)/wakecall"}
	user := []string{}
	if os.Geteuid() == 0 {
		user = []string{"--user=root"}
	}
	install := exec.Command("mariadb-install-db", append([]string{"--no-defaults", "--datadir=" + dir + "/data",
		"--auth-root-authentication-method=normal", "--skip-test-db"}, user...)...)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db (apt-get install mariadb-server): %v\n%s", err, out)
	}
	if err := os.WriteFile(dir+"/init.sql", []byte("CREATE DATABASE IF NOT EXISTS wakecall;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.args = append([]string{"--no-defaults", "--datadir=" + dir + "/data", "--socket=" + dir + "/s", "--pid-file=" + dir + "/pid",
		"--skip-networking", "--init-file=" + dir + "/init.sql", "--innodb-buffer-pool-size=16M", "--performance-schema=OFF"}, user...)
	d.start()
	t.Cleanup(d.kill)
	return d
}

func (d *database) start() {
	d.cmd = exec.Command("mariadbd", d.args...)
	d.cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin")
	if p, err := exec.LookPath("/usr/sbin/mariadbd"); err == nil {
		d.cmd.Path, d.cmd.Err = p, nil
	}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatalf("start mariadbd: %v", err)
	}
	eventually(d.t, "MariaDB answers", func() bool {
		r := &Registry{opts: Options{DSN: d.dsn}}
		if err := r.connect(); err != nil {
			d.t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		return r.Ping(context.Background()) == nil
	})
}

func (d *database) kill() { _ = d.cmd.Process.Kill(); _ = d.cmd.Wait() }

func open(t *testing.T, o Options) *Registry {
	t.Helper()
	o.Migrate = true
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait(); _ = r.Close() })
	return r
}

func topic(name string) Topic {
	t := NewTopic(name)
	t.CallbackURL = "http://127.0.0.1:1/hook"
	return t
}

func TestBothDatabasesDoTheSame(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { conformance(t, "sqlite:"+filepath.Join(t.TempDir(), "r.db")) })
	t.Run("mariadb", func(t *testing.T) { conformance(t, startMariaDB(t).dsn) })
}

func conformance(t *testing.T, dsn string) {
	ctx := t.Context()
	a, b := open(t, Options{DSN: dsn}), open(t, Options{DSN: dsn})

	x := topic("shop.close")
	x.Secrets = []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	x.Retry = []Duration{Duration(time.Second)}
	if created, err := a.PutTopic(ctx, "me", x); err != nil || !created {
		t.Fatalf("put = %v, %v", created, err)
	}
	if got := a.Snapshot().Topics["shop.close"]; got == nil || len(got.Secrets) != 1 || got.Retry[0].Std() != time.Second {
		t.Fatalf("own snapshot right after the put: %+v", got)
	}
	start := time.Now()
	eventually(t, "the other process sees the topic", func() bool { return b.Snapshot().Topics["shop.close"] != nil })
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	x.Secrets, x.Title = nil, "Titel"
	if created, err := b.PutTopic(ctx, "you", x); err != nil || created {
		t.Fatalf("second put = %v, %v", created, err)
	}
	if got := b.Snapshot().Topics["shop.close"]; len(got.Secrets) != 1 || got.Title != "Titel" {
		t.Fatalf("secrets were not kept: %+v", got)
	}
	if err := a.DeleteTopic(ctx, "me", "nobody"); !errors.Is(err, ErrNoTopic) {
		t.Fatalf("delete of nothing: %v", err)
	}
	trail, err := a.Audit(ctx, AuditFilter{Object: "topic/shop.close"})
	if err != nil || len(trail) != 2 || trail[0].Actor != "you" || trail[1].Actor != "me" {
		t.Fatalf("audit = %+v, %v", trail, err)
	}
	if s := string(trail[0].Before) + string(trail[0].After); strings.Contains(s, "whsec") || !strings.Contains(s, "Titel") {
		t.Fatalf("audit shows %s", s)
	}
	if err := a.DeleteTopic(ctx, "me", "shop.close"); err != nil {
		t.Fatal(err)
	}
	tokens(t, a, b)
	users(t, a)
	shardsAndFirstStart(t, a, b)
	manyWriters(t, a, b)
}

func tokens(t *testing.T, a, b *Registry) {
	ctx := t.Context()
	secret, tok, err := a.CreateToken(ctx, "me", "team", []Right{RightPush}, []string{"shop.*"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the token works elsewhere", func() bool { _, ok := b.Snapshot().Token(secret); return ok })
	got, _ := b.Snapshot().Token(secret)
	if !got.Allows(RightPush, "shop.close") || got.Allows(RightRead, "shop.close") || got.Allows(RightPush, "bank.close") {
		t.Fatalf("rights of %+v", got)
	}
	if err := b.RevokeToken(ctx, "me", tok.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revoked token is refused", func() bool { _, ok := a.Snapshot().Token(secret); return !ok })
	if err := b.RevokeToken(ctx, "me", tok.ID); !errors.Is(err, ErrNoToken) {
		t.Fatalf("second revocation: %v", err)
	}
	if _, _, err := a.CreateToken(ctx, "me", "x", []Right{"root"}, []string{"*"}); err == nil {
		t.Fatal("a right that does not exist was granted")
	}
}

func users(t *testing.T, a *Registry) {
	ctx := t.Context()
	if err := a.CreateUser(ctx, "me", "anna", "correct horse battery", RoleOperator); err != nil {
		t.Fatal(err)
	}
	if err := a.CreateUser(ctx, "me", "anna", "correct horse battery", RoleOperator); !errors.Is(err, ErrExists) {
		t.Fatalf("second user of the name: %v", err)
	}
	if u, err := a.CheckPassword(ctx, "anna", "correct horse battery"); err != nil || u.Role != RoleOperator {
		t.Fatalf("right password: %+v, %v", u, err)
	}
	for _, name := range []string{"anna", "nobody"} {
		if _, err := a.CheckPassword(ctx, name, "wrong horse battery"); !errors.Is(err, ErrNoUser) {
			t.Fatalf("wrong password of %s: %v", name, err)
		}
	}
}

func shardsAndFirstStart(t *testing.T, a, b *Registry) {
	ctx := t.Context()
	for _, r := range []*Registry{a, b} {
		if err := r.SeedShards(ctx, []Shard{{"local", "redis://:pw@h:1", ShardActive}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Snapshot().Shards; len(got) != 1 || got[0].Name != "local" {
		t.Fatalf("shards = %+v", got)
	}
	if err := a.PutShard(ctx, "me", Shard{"local", "redis://:pw@h:2", ShardDraining}); err != nil {
		t.Fatal(err)
	}
	trail, err := a.Audit(ctx, AuditFilter{Object: "shard/local"})
	if err != nil || len(trail) != 1 || strings.Contains(string(trail[0].After), "pw@") {
		t.Fatalf("audit = %+v, %v", trail, err)
	}
	dirs := []string{t.TempDir(), t.TempDir()}
	var wg sync.WaitGroup
	made := make([][]string, 2)
	for i, r := range []*Registry{a, b} {
		wg.Go(func() { made[i], _ = r.Bootstrap(ctx, dirs[i]) })
	}
	wg.Wait()
	if len(made[0])+len(made[1]) != 2 {
		t.Fatalf("two first starts at once made %v", made)
	}
	for _, f := range append(made[0], made[1]...) {
		if st, err := os.Stat(f); err != nil || st.Mode().Perm() != 0o600 {
			t.Fatalf("%s: %v, %v", f, st, err)
		}
		b, _ := os.ReadFile(f)
		if filepath.Base(f) == TokenFile {
			secret := strings.TrimSpace(string(b))
			eventually(t, "the first token works", func() bool { _, ok := a.Snapshot().Token(secret); return ok })
		} else if _, err := a.CheckPassword(ctx, "admin", strings.TrimSpace(string(b))); err != nil {
			t.Fatalf("the first password: %v", err)
		}
	}
}

func manyWriters(t *testing.T, a, b *Registry) {
	before := a.Snapshot().Revision
	var wg sync.WaitGroup
	errs := make(chan error, 20)
	for i := range 20 {
		wg.Go(func() {
			_, err := []*Registry{a, b}[i%2].PutTopic(t.Context(), "me", topic(fmt.Sprint("t", i)))
			errs <- err
		})
	}
	wg.Wait()
	for range 20 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both see all topics", func() bool { return len(a.Snapshot().Topics) == 20 && len(b.Snapshot().Topics) == 20 })
	eventually(t, "the revision counted them", func() bool { return a.Snapshot().Revision >= before+20 })
}

func TestTheDatabaseMayGoAndComeBack(t *testing.T) {
	db := startMariaDB(t)
	file := filepath.Join(t.TempDir(), "snapshot.json")
	r := open(t, Options{DSN: db.dsn, SnapshotFile: file, Poll: 50 * time.Millisecond})
	x := topic("t")
	x.Secrets = []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	if _, err := r.PutTopic(t.Context(), "me", x); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the topic is kept", func() bool { b, _ := os.ReadFile(file); return strings.Contains(string(b), "whsec_") })
	db.kill()
	eventually(t, "its absence is noticed", func() bool { return !r.Up() })
	if r.Snapshot().Topics["t"] == nil {
		t.Fatal("the snapshot went with the database")
	}
	start := time.Now()
	if _, err := r.PutTopic(t.Context(), "me", topic("u")); !errors.Is(err, ErrUnavailable) || time.Since(start) > 6*time.Second {
		t.Fatalf("a change without the database: %v after %v", err, time.Since(start))
	}
	eventually(t, "the snapshot is kept", func() bool {
		st, err := os.Stat(file)
		return err == nil && st.Mode().Perm() == 0o600
	})
	again, err := Open(Options{DSN: db.dsn, SnapshotFile: file})
	if err != nil {
		t.Fatalf("a restart without the database: %v", err)
	}
	defer func() { _ = again.Close() }()
	if got := again.Snapshot().Topics["t"]; got == nil || len(got.Secrets) != 1 {
		t.Fatalf("after a restart without the database: %+v", got)
	}
	if _, err := Open(Options{DSN: db.dsn}); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("a first start without the database: %v", err)
	}
	db.start()
	eventually(t, "its return is noticed", r.Up)
	if _, err := r.PutTopic(t.Context(), "me", topic("u")); err != nil {
		t.Fatal(err)
	}
}

func TestASchemaOfAnotherVersionIsRefused(t *testing.T) {
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "r.db")
	if _, err := Open(Options{DSN: dsn}); !errors.Is(err, ErrSchemaOlder) {
		t.Fatalf("an empty database without Migrate: %v", err)
	}
	r := open(t, Options{DSN: dsn})
	if _, err := r.sql.Exec("INSERT INTO schema_version (version_id, is_applied) VALUES (99999, 1)"); err != nil {
		t.Fatal(err)
	}
	for _, migrate := range []bool{false, true} {
		if _, err := Open(Options{DSN: dsn, Migrate: migrate}); !errors.Is(err, ErrSchemaNewer) || !strings.Contains(err.Error(), "99999") {
			t.Fatalf("a newer schema: %v", err)
		}
	}
}

func TestSeveralHostsMigrateAtOnce(t *testing.T) {
	for _, dsn := range []string{"sqlite:" + filepath.Join(t.TempDir(), "r.db"), startMariaDB(t).dsn} {
		var wg sync.WaitGroup
		errs := make(chan error, 6)
		for range 6 {
			wg.Go(func() {
				r, err := Open(Options{DSN: dsn, Migrate: true})
				if err == nil {
					err = r.Close()
				}
				errs <- err
			})
		}
		wg.Wait()
		for range 6 {
			if err := <-errs; err != nil {
				t.Errorf("%s: %v", MaskDSN(dsn), err)
			}
		}
	}
}

func TestErrorsHideThePassword(t *testing.T) {
	_, err := Open(Options{DSN: "mysql://u:hush@tcp(127.0.0.1:1)/db"})
	if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Fatalf("error = %v", err)
	}
}

func TestDecodeTopic(t *testing.T) {
	good := map[string]func(*Topic) bool{
		`{"callback_url":"http://h/x"}`:                                func(x *Topic) bool { return x.MaxAttempts == 10 && x.TTR.Std() == 10*time.Second && x.Secrets == nil },
		`{"callback_url":"http://h/x","ttr":1.5,"retry":["10s",60]}`:   func(x *Topic) bool { return x.TTR.Std() == 1500*time.Millisecond && x.Retry[1].Std() == time.Minute },
		`{"callback_url":"https://h","secrets":[],"state":"paused"}`:   func(x *Topic) bool { return x.Secrets != nil && x.State == TopicPaused },
		`{"name":"t","callback_url":"http://h","content_type":"form"}`: func(x *Topic) bool { return x.ContentType == "form" },
	}
	for in, ok := range good {
		x, err := DecodeTopic("t", []byte(in))
		if err != nil || !ok(x) {
			t.Errorf("%s: %+v, %v", in, x, err)
		}
		b, _ := json.Marshal(x.Public())
		if back, err := DecodeTopic("t", b); err != nil || back.CallbackURL != x.CallbackURL {
			t.Errorf("what was read cannot be put back: %s: %v", b, err)
		}
	}
	bad := []struct {
		field, in  string
		outOfRange bool
	}{
		{"callback_url", `{}`, false},
		{"callback_url", `{"callback_url":"ftp://h"}`, false},
		{"callback_url", `{"callback_url":"http://u:p@h"}`, false},
		{"callback_url", `{"callback_url":"http:///x"}`, false},
		{"nonsense", `{"callback_url":"http://h","nonsense":1}`, false},
		{"title", `{"callback_url":"http://h","title":1}`, false},
		{"title", `{"callback_url":"http://h","title":"a","title":"b"}`, false},
		{"title", `{"callback_url":"http://h","title":"a\u0000"}`, false},
		{"ttr", `{"callback_url":"http://h","ttr":"soon"}`, false},
		{"retry", `{"callback_url":"http://h","retry":["1s","soon"]}`, false},
		{"ttr", `{"callback_url":"http://h","ttr":"0s"}`, true},
		{"ttr", `{"callback_url":"http://h","ttr":"2h"}`, true},
		{"delay", `{"callback_url":"http://h","delay":"-1s"}`, true},
		{"method", `{"callback_url":"http://h","method":"DELETE"}`, true},
		{"priority", `{"callback_url":"http://h","priority":"urgent"}`, true},
		{"max_attempts", `{"callback_url":"http://h","max_attempts":0}`, true},
		{"rate_limit", `{"callback_url":"http://h","rate_limit":-1}`, true},
		{"max_in_flight", `{"callback_url":"http://h","max_in_flight":-1}`, true},
		{"headers", `{"callback_url":"http://h","headers":{"a b":"c"}}`, false},
		{"headers", `{"callback_url":"http://h","headers":{"a":"c\r\nd: e"}}`, false},
		{"headers", `{"callback_url":"http://h","headers":{"Webhook-Id":"c"}}`, false},
		{"emails", `{"callback_url":"http://h","emails":["nobody"]}`, false},
		{"secrets", `{"callback_url":"http://h","secrets":["hush"]}`, false},
		{"state", `{"callback_url":"http://h","state":"gone"}`, true},
		{"name", `{"callback_url":"http://h","name":"other"}`, false},
	}
	for _, c := range bad {
		_, err := DecodeTopic("t", []byte(c.in))
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != c.field || fe.OutOfRange != c.outOfRange {
			t.Errorf("%s: %v", c.in, err)
		}
	}
	for _, in := range []string{``, `[]`, `{"callback_url":"http://h"} x`, `{"callback_url":`, `nonsense`} {
		if _, err := DecodeTopic("t", []byte(in)); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
	for _, name := range []string{"", "A", "-a", "a b", strings.Repeat("a", 65), "a\n"} {
		if _, err := DecodeTopic(name, []byte(`{"callback_url":"http://h"}`)); err == nil {
			t.Errorf("the name %q was accepted", name)
		}
	}
}

func TestRetryDelays(t *testing.T) {
	x := topic("t")
	for n, want := range map[int]time.Duration{1: time.Minute, 2: 3 * time.Minute, 5: 9 * time.Minute} {
		if got := x.RetryDelay(n); got != want {
			t.Errorf("after attempt %d: %v", n, got)
		}
	}
	x.Retry = []Duration{Duration(time.Second), Duration(time.Minute)}
	for n, want := range map[int]time.Duration{1: time.Second, 2: time.Minute, 9: time.Minute} {
		if got := x.RetryDelay(n); got != want {
			t.Errorf("own list, after attempt %d: %v", n, got)
		}
	}
}
