package test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/redistest"
)

// TestBackupCommand: `wakecall backup` while pushes go on, and `wakecall restore` on other Redis servers, keep jobs,
// attempts, dead jobs, groups, close marks and schedules. A restore that was killed is repeated.
func TestBackupCommand(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, onRedis(harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})))
	f := fillForCommand(t, i)
	load := harness.StartLoad(t, i.Quick(), f.pushed, harness.LoadOptions{Topic: f.quick, Fields: M{"delay": "1s"}})
	f.pushed.WaitAcknowledged(t, 200)
	i.endpoint.WaitCalls(t, f.quick, 300)
	dir := filepath.Join(t.TempDir(), "backup")
	began := time.Now()
	if code, out := i.Run("backup", dir); code != 0 {
		t.Fatalf("backup: %s", out)
	}
	before := f.jobs(t, i)
	load.Stop()
	if code, out := i.Run("backup", dir); code == 0 {
		t.Errorf("a second backup into %s: %s", dir, out)
	}
	if code, out := i.Run("restore", dir); code == 0 {
		t.Errorf("a restore over what works: %s", out)
	}
	i.Signal(syscall.SIGTERM)
	i.WaitExit()

	one, two := harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})
	to := &installation{harness.New(t, onRedis(one, two)), i.endpoint}
	restore := []string{"restore", dir, "--shard", "redis-1=" + one.URL(), "--shard", "redis-2=" + two.URL()}
	if err := os.Mkdir(to.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if code, out := to.Run(restore...); code == 0 {
		t.Errorf("a restore without the secret key: %s", out)
	}
	for _, name := range []string{"secret-key", "api-token"} {
		copyTo(t, filepath.Join(i.Data, name), filepath.Join(to.Data, name))
	}
	if code, out := to.Run(append(restore, "--dry-run")...); code != 0 {
		t.Fatalf("restore --dry-run: %s", out)
	}
	killed := to.Command(restore...)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, soon, "the journal to be restored", func() error {
		_, err := os.Stat(filepath.Join(to.Data, "journal"))
		return err
	})
	_ = killed.Process.Kill()
	if killed.Wait() != nil { // else it was done before the kill
		// The registry comes last: it may have been restored when the kill came.
		code, out := to.Run(restore...)
		if code != 0 && !strings.Contains(out, "the registry to copy to must be empty") {
			t.Fatalf("restore after a kill: %s", out)
		}
	}
	if code, out := to.Run(restore...); code == 0 {
		t.Errorf("a restore over what was restored: %s", out)
	}
	restored := time.Now()
	to.Up()
	to.WaitReady()
	f.check(t, to, before, restored)
	for _, topic := range []string{f.quick, f.signed} {
		notCalledAgain(t, i.endpoint.Calls(topic), began.Add(-time.Second), restored)
	}
	copiedUpTo(f.pushed, began).Verdict(t, to.API, i.endpoint, callsSince(i.endpoint, began, restored))
}

// TestRestoreBesideItsJournal: a job that was called after the backup is not called again when the journal of that time
// is still there.
func TestRestoreBesideItsJournal(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	topic := topicName(t)
	i.put(t, topic, nil, nil)
	for _, id := range []string{"called", "deleted", "waits"} {
		i.MustPush(t, topic, M{"id": id, "body": 1, "delay": "1h"})
	}
	dir := filepath.Join(t.TempDir(), "backup")
	if code, out := i.Run("backup", dir); code != 0 {
		t.Fatalf("backup: %s", out)
	}
	i.MustDo(t, http.StatusAccepted, http.MethodPost, harness.JobPath(topic, "called")+"/run", nil)
	i.MustDo(t, http.StatusNoContent, http.MethodDelete, harness.JobPath(topic, "deleted"), nil)
	i.MustPush(t, topic, M{"id": "later", "body": 1, "delay": "1h"})
	i.endpoint.WaitCalls(t, topic, 1)
	i.waitState(t, topic, "called", "done")
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	r.Do("FLUSHALL")
	for _, name := range []string{"registry.db", "registry.db-wal", "registry.db-shm", "registry-snapshot.json"} {
		if err := os.RemoveAll(filepath.Join(i.Data, name)); err != nil {
			t.Fatal(err)
		}
	}
	if code, out := i.Run("restore", dir); code != 0 {
		t.Fatalf("restore: %s", out)
	}
	i.Up()
	i.WaitReady()
	for _, id := range []string{"waits", "later"} {
		i.waitState(t, topic, id, "delayed")
	}
	for _, id := range []string{"called", "deleted"} {
		i.MustDo(t, http.StatusNotFound, http.MethodGet, harness.JobPath(topic, id), nil)
	}
	if calls := i.endpoint.Calls(topic); len(calls) != 1 {
		t.Errorf("%d calls", len(calls))
	}
}

// TestRestoreElsewhere: what is on one database and one kind of Redis is restored on others. A dry run changes nothing
// there. A job that was pushed longer ago than the journal keeps comes back, too.
func TestRestoreElsewhere(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for name, c := range map[string]struct {
		from, to     func(testing.TB) *redistest.Deployment
		fromDB, toDB func(testing.TB) string
	}{
		"MariaDB to PostgreSQL": {
			redistest.StartStandalone, redistest.StartStandalone, dbtest.EmptyMariaDB, dbtest.EmptyPostgres,
		},
		"PostgreSQL to MariaDB": {
			redistest.StartShards, redistest.StartShards, dbtest.EmptyPostgres, dbtest.EmptyMariaDB,
		},
		"Cluster to Cluster": {redistest.StartMasters, redistest.StartMasters, dbtest.SQLite, dbtest.SQLite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := c.from(t), c.to(t)
			i := start(t, on(from, "WAKECALL_REGISTRY_DSN="+c.fromDB(t)))
			f := fillForCommand(t, i)
			i.Signal(syscall.SIGTERM)
			i.WaitExit()
			old, err := filepath.Glob(filepath.Join(i.Data, "journal", "*.jsonl"))
			if err != nil || len(old) == 0 {
				t.Fatal("no files of the journal", err)
			}
			for _, name := range old { // as after journal.keep
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
			i.Up()
			i.WaitReady()
			dir := filepath.Join(t.TempDir(), "backup")
			if code, out := i.Run("backup", dir); code != 0 {
				t.Fatalf("backup: %s", out)
			}
			before := f.jobs(t, i)
			i.Signal(syscall.SIGTERM)
			i.WaitExit()

			dsn := c.toDB(t)
			there := &installation{harness.New(t, on(to, "WAKECALL_REGISTRY_DSN="+dsn)), i.endpoint}
			if err := os.Mkdir(there.Data, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"secret-key", "api-token"} {
				copyTo(t, filepath.Join(i.Data, name), filepath.Join(there.Data, name))
			}
			restore := []string{"restore", dir}
			for n, url := range to.URLs {
				restore = append(restore, "--shard", fmt.Sprintf("redis-%d=%s", n+1, url))
			}
			if code, out := there.Run(append(restore, "--dry-run")...); code != 0 {
				t.Fatalf("restore --dry-run: %s", out)
			}
			if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
				if _, err := os.Stat(path); err == nil {
					t.Error("the dry run created the registry")
				}
			}
			if code, out := there.Run("migrate", "status"); code == 0 || strings.Contains(out, "applied") {
				t.Errorf("migrate status after the dry run: %s", out)
			}
			if code, out := there.Run(restore...); code != 0 {
				t.Fatalf("restore: %s", out)
			}
			restored := time.Now()
			there.Up()
			there.WaitReady()
			f.check(t, there, before, restored)
		})
	}
}

// notCalledAgain checks that no job that was called before a backup is called after the restore.
func notCalledAgain(t *testing.T, calls []harness.Call, backedUp, restored time.Time) {
	t.Helper()
	called := map[string]bool{}
	for _, c := range calls {
		if c.At.Before(backedUp) {
			called[c.ID] = true
		} else if c.At.After(restored) && called[c.ID] {
			t.Errorf("%s/%s was called again", c.Topic, c.ID)
		}
	}
	if len(called) == 0 {
		t.Error("no job was called before the backup")
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// backedUp is what an installation has before its backup.
type backedUp struct {
	topic, dead, signed, quick, secret string
	hourly, often                      string // schedules
	pushed                             *harness.Ledger
}

func fillForCommand(t *testing.T, i *installation) *backedUp {
	t.Helper()
	f := &backedUp{
		topic: "held." + topicName(t), secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", pushed: harness.NewLedger(),
	}
	f.dead, f.signed, f.quick = f.topic+".dead", f.topic+".signed", f.topic+".quick"
	f.hourly, f.often = f.topic+".hourly", f.topic+".often"
	i.put(t, f.topic, harness.Status(http.StatusServiceUnavailable),
		M{"retry": []string{"1h"}, "per_key": M{"max_in_flight": 1}})
	i.put(t, f.dead, harness.Status(http.StatusGone), nil)
	i.put(t, f.signed, nil, M{"secrets": []string{f.secret}})
	i.put(t, f.quick, nil, M{"retry": []string{"100ms"}, "ttr": "5s"})
	i.MustPush(t, f.topic, M{"id": "delayed", "body": M{"n": 1}, "delay": "720h", "priority": "high"})
	i.MustPush(t, f.topic, M{"id": "keyed", "body": "text", "delay": "2h", "key": "customer 42"})
	i.MustPush(t, f.topic, M{"id": "grouped", "body": 1, "delay": "2h", "group": "order-7"})
	i.MustPush(t, f.topic, M{"id": "tried", "body": 1})
	i.MustPush(t, f.dead, M{"id": "dead", "body": 1})
	i.waitState(t, f.dead, "dead", "dead")
	harness.Eventually(t, soon, "the first attempt to fail", func() error {
		return harness.Equal("its attempts", i.MustGet(t, f.topic, "tried").Attempts, 1)
	})
	i.MustDo(t, http.StatusOK, http.MethodDelete, "/v1/groups/closed%20%C3%BC?close=1h", nil)
	i.schedule(t, f.hourly, f.signed, "1h", nil)
	i.schedule(t, f.often, f.signed, "1s", nil)
	i.endpoint.WaitCalls(t, f.signed, 2)
	return f
}

// jobs returns the jobs that wait or are dead, as the API shows them.
func (f *backedUp) jobs(t *testing.T, i *installation) map[string]M {
	t.Helper()
	jobs := map[string]M{}
	for topic, ids := range map[string][]string{f.topic: {"delayed", "keyed", "grouped", "tried"}, f.dead: {"dead"}} {
		for _, id := range ids {
			job := M{}
			answer := i.MustDo(t, http.StatusOK, http.MethodGet, harness.JobPath(topic, id), nil)
			if err := answer.JSON(&job); err != nil {
				t.Fatal(err)
			}
			delete(job, "etag")
			jobs[id] = job
		}
	}
	return jobs
}

func (f *backedUp) check(t *testing.T, i *installation, want map[string]M, restored time.Time) {
	t.Helper()
	got := f.jobs(t, i)
	for id := range want {
		if !reflect.DeepEqual(got[id], want[id]) {
			t.Errorf("%s is restored as\n%v, and was\n%v", id, got[id], want[id])
		}
	}
	isClosed(t, i.API, f.topic, "closed ü")
	if n := i.inGroup(t, "order-7"); n != 1 {
		t.Errorf("the group has %d jobs", n)
	}
	i.waitFired(t, f.often, restored)
	for _, c := range i.endpoint.Calls(f.signed) {
		if err := verifies(f.secret, c); err != nil {
			t.Errorf("the signature of %s: %v", c.ID, err)
		}
	}
	if _, err := i.told(f.hourly); err != nil {
		t.Error(fmt.Errorf("schedule %s: %w", f.hourly, err))
	}
}
