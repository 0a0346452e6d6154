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
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// probePrefix begins the ids of jobs that are pushed to check whether calls flow.
const probePrefix = "probe-"

// prompt are topics whose endpoints, or workers, answer at once.
var prompt = []string{"steady", "flaky", "mortal", "pulled"}

// shard is a redis-server behind a proxy. The server changes when a replica takes over.
type shard struct {
	server  *harness.Redis
	backups *harness.Backups
	proxy   *harness.Proxy
}

// site is the installation to which faults are applied.
type site struct {
	t        testing.TB
	rec      *recorder
	endpoint *endpoint
	hosts    []*harness.Wakecall
	shards   []*shard
	db       *dbtest.Server
	dbProxy  *harness.Proxy
	disks    []*harness.Disk // the small disk of each host's journal; empty if none could be mounted
	longest  time.Duration
	probes   int
}

// longRun is long enough for jobs with longer delays, and for a host with a wrong clock.
const longRun = 5 * time.Minute

// newSite starts the installation and waits until it is ready.
func newSite(t testing.TB, rec *recorder, r *rand.Rand, length time.Duration) *site {
	t.Helper()
	s := &site{t: t, rec: rec, longest: 12 * time.Second}
	if length >= longRun {
		s.longest = 100 * time.Second
	}
	s.endpoint = newEndpoint(rec, fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t)))
	if err := s.endpoint.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.endpoint.stop)
	s.db = dbtest.StartServer(t)
	s.dbProxy = harness.StartProxy(t, s.db.Addr())
	var nodes []string
	for range 2 {
		sh := s.newShard()
		sh.proxy = harness.StartProxy(t, sh.server.Addr())
		s.shards = append(s.shards, sh)
		nodes = append(nodes, "redis://"+sh.proxy.Addr()+"/0")
	}
	env := map[string]string{
		"WAKECALL_REDIS_NODES":  strings.Join(nodes, ","),
		"WAKECALL_REGISTRY_DSN": strings.Replace(s.db.DSN("wakecall"), s.db.Addr(), s.dbProxy.Addr(), 1),
		"WAKECALL_DISPATCHERS":  fmt.Sprint(1 + r.IntN(2)),
		"WAKECALL_SPOOL":        []string{"off", "on"}[r.IntN(2)],
		"WAKECALL_JOURNAL_SYNC": []string{"none", "always"}[r.IntN(2)],
	}
	t.Logf(
		"dispatchers %s, spool %s, journal.sync %s",
		env["WAKECALL_DISPATCHERS"],
		env["WAKECALL_SPOOL"],
		env["WAKECALL_JOURNAL_SYNC"],
	)
	options := harness.Options{Env: env}
	s.hosts = append(s.hosts, harness.New(t, options))
	if length >= longRun { // building it takes a minute
		off := []time.Duration{-10 * time.Minute, 10 * time.Minute}[r.IntN(2)]
		t.Logf("the clock of host 2 is off by %s", off)
		options.Binary = harness.BuildOff(t, off)
		defer func() { s.checkClock(off) }()
	}
	s.hosts = append(s.hosts, harness.New(t, options))
	s.mountDisks()
	s.upTogether()
	s.putTopics()
	return s
}

// newShard starts a server, without a proxy yet.
func (s *site) newShard() *shard {
	server := harness.StartRedis(
		s.t,
		harness.RedisOptions{Args: []string{"--auto-aof-rewrite-percentage", "0", "--repl-diskless-sync-delay", "0"}},
	)
	return &shard{server: server, backups: server.KeepBackups(oldestBackup + time.Minute)}
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

// checkClock checks that the second host's clock has the intended offset.
func (s *site) checkClock(off time.Duration) {
	s.t.Helper()
	date, err := http.ParseTime(s.hosts[1].Do(context.Background(), http.MethodGet, "/livez", nil).Header.Get("Date"))
	if d := time.Until(date) - off; err != nil || d.Abs() > time.Minute {
		s.t.Fatalf("the clock of host 2 shows %s, %v", date, err)
	}
}

func (s *site) upTogether() {
	s.t.Helper()
	for _, h := range s.hosts {
		h.Up()
	}
	harness.Eventually(s.t, 90*time.Second, "both hosts to be ready", s.ready)
	token := s.hosts[0].SharedToken(s.hosts[1])
	for _, h := range s.hosts {
		h.Token = token
	}
}

// ready returns nil when every host can accept a push.
func (s *site) ready() error {
	for n, h := range s.hosts {
		if h.Exited() {
			return fmt.Errorf("host %d has ended:\n%s", n+1, h.Log(4000))
		}
		if err := h.Readyz(); err != nil {
			return fmt.Errorf("host %d: %w", n+1, err)
		}
	}
	return nil
}

func (s *site) putTopics() {
	s.t.Helper()
	behaviours := healthy()
	for _, topic := range topics {
		fields := M{}
		if b := behaviours[topic.name]; b != nil { // not of a pull topic
			s.endpoint.behave(topic.name, b)
			fields["callback_url"] = s.endpoint.url(topic.name)
		}
		maps.Copy(fields, topic.fields)
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

// complete returns nil when no process is missing.
func (s *site) complete() error {
	var errs []error
	for n, h := range s.hosts {
		for _, role := range roles {
			if len(h.Role(role)) == 0 {
				errs = append(errs, fmt.Errorf("host %d has no %s", n+1, role))
			}
		}
	}
	return errors.Join(errs...)
}

// connected returns nil when every host reaches both shards, and none of their jobs is overdue.
func (s *site) connected(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for n, h := range s.hosts {
		var body struct {
			Shards []struct {
				Name string `json:"name"`
				Up   bool   `json:"up"`
			} `json:"shards"`
		}
		if err := h.Quick().Do(ctx, http.MethodGet, "/v1/shards", nil).JSON(&body); err != nil {
			return fmt.Errorf("host %d: %w", n+1, err)
		}
		for _, sh := range body.Shards {
			if !sh.Up {
				return fmt.Errorf("host %d does not reach %s", n+1, sh.Name)
			}
		}
	}
	for _, topic := range prompt {
		stats, err := s.hosts[0].Quick().Stats(ctx, topic)
		if err != nil {
			return err
		}
		if stats.OldestReadyMS > 2000 {
			return fmt.Errorf("a job of %s has been ready for %.0f ms", topic, stats.OldestReadyMS)
		}
	}
	return nil
}

// waitCalm waits until calls flow again: every process is running, both hosts accept pushes and reach both shards, no
// due job is waiting, and a batch of probes pushed to each host has been called.
func (s *site) waitCalm(ctx context.Context) error {
	for {
		err := s.calm(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *site) calm(ctx context.Context) error {
	if err := errors.Join(s.complete(), s.ready()); err != nil {
		return err
	}
	if err := s.connected(ctx); err != nil {
		return err
	}
	var sent []string
	for n := range s.hosts {
		ids, err := s.probe(ctx, n)
		if err != nil {
			return fmt.Errorf("probing host %d: %w", n+1, err)
		}
		sent = append(sent, ids...)
	}
	limit := time.Now().Add(15 * time.Second)
	for {
		late := 0
		for _, id := range sent {
			late += one(!s.endpoint.answered(id))
		}
		if late == 0 {
			return nil
		}
		if time.Now().After(limit) || ctx.Err() != nil {
			return fmt.Errorf("%d of %d probes were not called", late, len(sent))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// probe pushes jobs that are due at once, to the topics in turn, and returns their ids.
func (s *site) probe(ctx context.Context, host int) (ids []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var jobs []M
	var events []event
	for n := range 12 {
		s.probes++
		e := event{
			Kind:    evPush,
			Topic:   prompt[n%len(prompt)],
			ID:      fmt.Sprint(probePrefix, s.probes),
			SetsDue: true,
			Host:    host + 1,
			At:      now(),
		}
		e.Body = digest([]byte(`"probe"`))
		ids, events = append(ids, e.ID), append(events, e)
		jobs = append(jobs, M{"topic": e.Topic, "id": e.ID, "body": "probe", "priority": "high"})
	}
	answer := s.hosts[host].Quick().Do(ctx, http.MethodPost, "/v1/jobs", M{"jobs": jobs})
	var body struct {
		Results []struct {
			Error *harness.Problem `json:"error"`
			State string           `json:"state"`
		} `json:"results"`
	}
	told := answer.Status == http.StatusOK && answer.JSON(&body) == nil && len(body.Results) == len(jobs)
	if !told {
		err = fmt.Errorf("a push was answered %s", answer)
	}
	for n, e := range events {
		e.End, e.Status = now(), answer.Status
		e.Result = resultOf(answer.Status, answer.Err)
		if told && body.Results[n].Error != nil {
			e.Result = resultOf(body.Results[n].Error.Status, nil)
			err = fmt.Errorf("a push was answered %+v", *body.Results[n].Error)
		}
		s.rec.add(e)
	}
	return ids, err
}

// waitDrained waits until no job is delayed, ready or running, and no host has a job to recover.
func (s *site) waitDrained(ctx context.Context) error {
	for {
		err := s.compared(ctx)
		if err == nil {
			err = s.drained(ctx)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// compared checks that every host has replayed its journal in the servers that answer now: before that, writes that a
// server has lost are missing.
func (s *site) compared(ctx context.Context) error {
	for n, sh := range s.shards {
		id, err := sh.server.Info("server", "run_id")
		if err != nil {
			return fmt.Errorf("redis %d: %w", n+1, err)
		}
		c := sh.server.Client()
		run, name, hosts := c.Get(ctx, "wk:{0}:run"), c.HGet(ctx, "wk:{0}:cmp", "name"), c.HVals(ctx, "wk:{0}:hosts")
		if err := errors.Join(run.Err(), name.Err(), hosts.Err()); err != nil {
			return fmt.Errorf("redis %d: %w", n+1, err)
		}
		done := slices.DeleteFunc(hosts.Val(), func(v string) bool { return strings.Fields(v)[1] != name.Val() })
		if run.Val() != id || len(done) < len(s.hosts) {
			return fmt.Errorf("redis %d: %d of %d hosts have compared their journals with it", n+1, len(done), len(s.hosts))
		}
	}
	return nil
}

func (s *site) drained(ctx context.Context) error {
	var errs []error
	for _, topic := range topics {
		stats, err := s.hosts[0].Stats(ctx, topic.name)
		if err == nil && stats.Delayed+stats.Ready+stats.Running > 0 {
			err = fmt.Errorf("%s has %+v", topic.name, stats)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// recordDead records which jobs are dead and visible.
func (s *site) recordDead(ctx context.Context) error {
	api := s.hosts[0].Quick()
	for _, topic := range topics {
		jobs, err := api.List(ctx, topic.name, "dead")
		if err != nil {
			return err
		}
		for _, j := range jobs {
			var whole harness.Job
			if err := api.Do(ctx, http.MethodGet, harness.JobPath(topic.name, j.ID), nil).JSON(&whole); err != nil {
				return err
			}
			e := event{Kind: evDead, At: now(), Topic: topic.name, ID: j.ID, Error: j.DeadReason}
			if last := len(whole.History) - 1; last >= 0 {
				e.Status = whole.History[last].Status
			}
			s.rec.add(e)
		}
	}
	return nil
}

// trim rewrites the append-only files, so that servers restart quickly.
func (s *site) trim() {
	for _, sh := range s.shards {
		if sh.server.AOFSize() < 64<<20 {
			continue
		}
		s.t.Log("rewriting an append-only file")
		if err := sh.server.Try("BGREWRITEAOF"); err != nil {
			s.t.Logf("rewriting: %v", err)
			continue
		}
		harness.Eventually(s.t, time.Minute, "the rewrite to end", func() error {
			busy, err := sh.server.Info("persistence", "aof_rewrite_in_progress")
			if err != nil {
				return err
			}
			return harness.Equal("aof_rewrite_in_progress", busy, "0")
		})
	}
}
