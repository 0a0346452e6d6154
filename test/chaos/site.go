package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/ledger"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/redistest"
)

// longRun is long enough for jobs with longer delays, and for a host with a wrong clock.
const longRun = 5 * time.Minute

// diskSize is the size of each journal's disk: more than a run writes.
const diskSize = "1g"

// shard is a redis-server behind a proxy: a shard, or a master of the Cluster. The server changes when a replica takes over.
type shard struct {
	server  *harness.Redis
	backups []backup // the oldest first
	proxy   *harness.Proxy
}

// backup is a copy of a server's append-only file.
type backup struct {
	at  time.Time
	dir string
}

// site is the installation to which faults are applied.
type site struct {
	t        testing.TB
	rec      *harness.Ledger
	endpoint *harness.Endpoint
	hosts    []*harness.Wakecall
	shards   []*shard
	db       dbtest.Stoppable
	dbProxy  *harness.Proxy
	disks    []*harness.Disk // the small disk of each host's journal; empty if none could be mounted
	longest  time.Duration   // of the delays
	prober   recorder
	probes   int
	answered sync.Map // ids of probes that were called and answered
	ticks    ticks
}

// newSite starts the installation and waits until it is ready.
func newSite(t testing.TB, r *rand.Rand) *site {
	t.Helper()
	s := &site{t: t, rec: harness.NewLedger(), longest: 12 * time.Second}
	if length >= longRun {
		s.longest = 100 * time.Second
	}
	s.endpoint = harness.NewEndpoint(fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)), s.observe)
	if err := s.endpoint.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.endpoint.Stop)
	startDatabase := dbtest.Servers[databaseKind]
	if startDatabase == nil {
		t.Fatalf("no database %q for chaos", databaseKind)
	}
	s.db = startDatabase(t)
	s.dbProxy = harness.StartProxy(t, s.db.Addr())
	if !slices.Contains([]string{"shards", "cluster", "standalone"}, deployment) {
		t.Fatalf("no deployment %q for chaos", deployment)
	}
	d := redistest.Kinds[deployment](t)
	for _, n := range d.Nodes {
		s.shards = append(s.shards, &shard{server: n.Server, proxy: n.Proxy})
	}
	s.newHosts(r, map[string]string{
		"WAKECALL_REDIS_NODES":  d.URL(),
		"WAKECALL_REGISTRY_DSN": strings.Replace(s.db.DSN("wakecall"), s.db.Addr(), s.dbProxy.Addr(), 1),
		"WAKECALL_DISPATCHERS":  fmt.Sprint(1 + r.IntN(2)),
		"WAKECALL_SPOOL":        []string{"off", "on"}[r.IntN(2)],
		"WAKECALL_JOURNAL_SYNC": []string{"none", "always"}[r.IntN(2)],
	})
	s.putTopics()
	s.prober = s.recorder(seed, 0)
	return s
}

// newHosts starts both hosts. In a long run the clock of the second is wrong (building that takes a minute).
func (s *site) newHosts(r *rand.Rand, env map[string]string) {
	s.t.Helper()
	s.t.Logf("dispatchers %s, spool %s, journal.sync %s", env["WAKECALL_DISPATCHERS"], env["WAKECALL_SPOOL"],
		env["WAKECALL_JOURNAL_SYNC"])
	options, off := harness.Options{Env: env}, time.Duration(0)
	s.hosts = append(s.hosts, harness.New(s.t, options))
	if length >= longRun {
		off = []time.Duration{-10 * time.Minute, 10 * time.Minute}[r.IntN(2)]
		s.t.Logf("the clock of host 2 is off by %s", off)
		options.Binary = buildOff(s.t, off)
	}
	s.hosts = append(s.hosts, harness.New(s.t, options))
	s.mountDisks()
	for _, h := range s.hosts {
		h.Up()
	}
	harness.Eventually(s.t, 90*time.Second, "both hosts to be ready", func() error { return s.complete(s.t.Context()) })
	harness.ShareToken(s.t, s.hosts...)
	date, err := http.ParseTime(s.hosts[1].Do(context.Background(), http.MethodGet, "/livez", nil).Header.Get("Date"))
	if d := time.Until(date) - off; err != nil || d.Abs() > time.Minute {
		s.t.Fatalf("the clock of host 2 shows %s, %v", date, err)
	}
}

// newReplica starts a server that can take the place of one.
func (s *site) newReplica() *harness.Redis {
	return harness.StartRedis(s.t, harness.RedisOptions{
		Args: []string{"--auto-aof-rewrite-percentage", "0", "--repl-diskless-sync-delay", "0"},
	})
}

// mountDisks gives each host's journal a disk of its own that can be filled, where that is permitted.
func (s *site) mountDisks() {
	for _, h := range s.hosts {
		dir := filepath.Join(h.Dir, "journal")
		if err := os.Mkdir(dir, 0o700); err != nil {
			s.t.Fatal(err)
		}
		disk, err := harness.MountDisk(s.t, dir, diskSize)
		if err != nil {
			s.t.Logf("no full disks in this run: %v", err)
			s.disks = nil
			return
		}
		h.SetEnv("WAKECALL_JOURNAL_DIR", dir)
		s.disks = append(s.disks, disk)
	}
}

func (s *site) putTopics() {
	s.t.Helper()
	behaviours := healthy()
	for _, topic := range topics {
		fields := maps.Clone(topic.fields)
		if b := behaviours[topic.name]; b != nil { // not of a pull topic
			s.endpoint.Set("/"+topic.name, b)
			fields["callback_url"] = s.endpoint.URL("/" + topic.name)
		}
		s.hosts[0].MustPutTopic(s.t, topic.name, fields)
	}
	harness.Eventually(s.t, 20*time.Second, "the other host to know the topics", func() error {
		for _, topic := range topics {
			answer := s.hosts[1].Do(context.Background(), http.MethodGet, "/v1/topics/"+topic.name, nil)
			if err := harness.Equal("status", answer.Status, http.StatusOK); err != nil {
				return err
			}
		}
		return nil
	})
}

// observe records a call as it arrives, and its answer.
func (s *site) observe(c harness.Call) {
	if c.Status == 0 {
		s.rec.Add(c.Arrival())
		return
	}
	answer := c.Answer()
	s.rec.Add(answer)
	if answer.Result == ledger.Good {
		s.noteProbe(c.ID)
	}
}

// farTopic has the jobs that stay delayed during the whole run: they are due long after it.
const farTopic = "far"

// pushFar pushes them, a thousand at once.
func (s *site) pushFar(ctx context.Context) error {
	if far == 0 {
		return nil
	}
	s.hosts[0].MustPutTopic(s.t, farTopic, M{"callback_url": s.endpoint.URL("/" + farTopic)})
	for n := 0; n < far; {
		var jobs []M
		for ; n < far && len(jobs) < 1000; n++ {
			jobs = append(jobs, M{"topic": farTopic, "id": fmt.Sprint("far-", n), "body": n, "delay": "24h"})
		}
		answer := s.hosts[n/1000%len(s.hosts)].Quick().Do(ctx, http.MethodPost, "/v1/jobs", M{"jobs": jobs})
		results := resultsOf(answer, len(jobs))
		if results == nil || slices.ContainsFunc(results, func(r harness.Result) bool { return r.Error != nil }) {
			return fmt.Errorf("push jobs that wait: %s", answer)
		}
	}
	return nil
}

// checkFar checks that all of them are still delayed.
func (s *site) checkFar(ctx context.Context) error {
	if far == 0 {
		return nil
	}
	stats, err := s.hosts[0].Stats(ctx, farTopic)
	if err != nil {
		return err
	}
	return harness.Equal("jobs that wait", stats.Delayed, far)
}

// recordDead records which jobs are dead and visible.
func (s *site) recordDead(ctx context.Context) (err error) {
	for _, topic := range topics {
		immortal := topic.fields["max_attempts"] == attemptsEnough
		err = errors.Join(err, s.rec.RecordDead(ctx, s.hosts[0].Quick(), topic.name, immortal))
	}
	return err
}

// trim rewrites long append-only files, so that servers restart quickly, and waits until no file is being rewritten.
func (s *site) trim() (err error) {
	for _, sh := range s.shards {
		size, infoErr := sh.server.Info("Persistence", "aof_current_size")
		if infoErr == nil && len(size) >= len("100000000") {
			s.t.Logf("rewriting an append-only file of %s bytes", size)
			err = errors.Join(err, sh.server.Try("BGREWRITEAOF"))
		}
		harness.Eventually(s.t, time.Minute, "the rewrite to end", func() error {
			busy, infoErr := sh.server.Info("Persistence", "aof_rewrite_in_progress")
			return errors.Join(infoErr, harness.Equal("aof_rewrite_in_progress", busy, "0"))
		})
	}
	return err
}

// backUp makes a backup of each server every minute.
func (s *site) backUp() error {
	for _, sh := range s.shards {
		if n := len(sh.backups); n > 0 && time.Since(sh.backups[n-1].at) < time.Minute {
			continue
		}
		b := backup{time.Now(), process.Dir(s.t, "redis-backup")}
		if err := sh.server.Backup(b.dir); err != nil {
			return err
		}
		sh.backups = append(sh.backups, b)
		for len(sh.backups) > 1 && time.Since(sh.backups[1].at) > oldestBackup {
			_ = os.RemoveAll(sh.backups[0].dir) // removed at the latest with the test
			sh.backups = sh.backups[1:]
		}
	}
	return nil
}
