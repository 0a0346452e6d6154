package importer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/harness"
)

func oldRedis(t *testing.T) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(harness.StartRedis(t, harness.RedisOptions{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	db := Connect(o)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestOneImportAtATime(t *testing.T) {
	t.Parallel()
	db := oldRedis(t)
	if err := alone(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	o := *db.Options()
	second := Connect(&o)
	if err := alone(t.Context(), second); !errors.Is(err, ErrLocked) {
		t.Errorf("a second import: %v, want ErrLocked", err)
	}
	if err := alone(t.Context(), db); err != nil {
		t.Errorf("the first one: %v", err)
	}
	o.DB = 1
	elsewhere := Connect(&o)
	if err := alone(t.Context(), elsewhere); err != nil {
		t.Errorf("an import from another database of the server: %v", err)
	}
	_ = elsewhere.Close()
	_ = db.Close() // as if the process was killed
	harness.Eventually(t, time.Minute, "the second import continues", func() error { return alone(t.Context(), second) })
	_ = second.Close()
}

// msgpackJob is a job as delay-queue stores it.
func msgpackJob(topic, id, body string, delay, ttr int64) string {
	text := func(s string) string { return "\xda" + string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s }
	number := func(n int64) string { return "\xd3" + string(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	return "\x85" + text("Topic") + text(topic) + text("Id") + text(id) + text("Delay") + number(delay) + text("TTR") +
		number(ttr) + text("Body") + text(body)
}

func claimedIDs(jobs []Job) string {
	var ids []string
	for _, job := range jobs {
		ids = append(ids, job.Push.ID)
	}
	return strings.Join(ids, " ")
}

func TestDelayQueueJobsAreClaimedUnlessAConsumerHasThem(t *testing.T) {
	t.Parallel()
	db, ctx := oldRedis(t), t.Context()
	d := &DelayQueue{
		Redis: db, Namespace: registry.NewTopic("delayqueue.*"),
		TopicOf: func(name string) string { return "delayqueue." + name },
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().Unix()
	add := func(bucket, id string, delay, score int64) {
		t.Helper()
		must(db.Set(ctx, id, msgpackJob("a", id, " \x00\xff ", delay, 60), 0).Err())
		must(db.ZAdd(ctx, bucket, redis.Z{Score: float64(score), Member: id}).Err())
	}
	add("dq_bucket_1", "delayed", now+3600, now+3600)
	add("dq_bucket_2", "popped", now-10, now+50)
	add("dq_bucket_3", "due", now-10, now-10)
	add("dq_bucket_3", strings.Repeat("x", 129), now+3600, now+3600) // Wakecall does not accept its id
	must(db.ZAdd(ctx, "dq_bucket_3", redis.Z{Score: float64(now + 100), Member: "finished"}).Err())
	must(db.Set(ctx, "ready", msgpackJob("a b", "ready", "x", now-20, 60), 0).Err())
	must(db.RPush(ctx, "dq_queue_a b", "deleted", "ready").Err())
	if n, err := d.Waiting(ctx); n != 7 || err != nil {
		t.Errorf("%d entries, %v", n, err)
	}
	first, err := d.Claim(ctx, 100)
	must(err)
	if claimedIDs(first) != "ready" || first[0].Push.Topic != "delayqueue.a b" {
		t.Fatalf("first %+v, want the ready job", first)
	}
	second, err := d.Claim(ctx, 100)
	must(err)
	if claimedIDs(second) != "delayed" {
		t.Fatalf("then %+v, want the delayed job", second)
	}
	if p := second[0].Push; p.DueAt.Unix() != now+3600 || p.TTR != time.Minute || string(p.Body) != " \x00\xff " {
		t.Errorf("it is %+v", p)
	}
	third, err := d.Claim(ctx, 100)
	must(err)
	if claimedIDs(third) != "due" {
		t.Fatalf("then %+v, want the job that no timer moves", third)
	}
	left, err := d.Left(ctx)
	must(err)
	if len(left) != 3 {
		t.Errorf("%d claims are left, want 3", len(left))
	}
	for _, jobs := range byClaim(left) {
		must(d.Drop(ctx, jobs))
	}
	if n := db.Exists(ctx, "wakecall_claims", "delayed", "due", "ready").Val(); n != 0 {
		t.Errorf("%d keys of claimed jobs are left", n)
	}
	if db.Exists(ctx, "popped").Val() != 1 {
		t.Error("the popped job is gone")
	}
	add("dq_bucket_2", "popped", now-10, now-10) // its ttr is over
	if again, err := d.Claim(ctx, 100); err != nil || claimedIDs(again) != "popped" {
		t.Errorf("after its ttr: %+v %v", again, err)
	}
}

func TestGrapeJobsAreClaimedUnlessAConsumerMayHaveThem(t *testing.T) {
	t.Parallel()
	db, ctx := oldRedis(t), t.Context()
	g := &Grape{Redis: db, Group: "shop", TopicOf: func(tube string) string { return "grape." + tube }}
	var created []string
	g.Create = func(_ context.Context, tubes ...string) error {
		created = append(created, tubes...)
		return nil
	}
	now := time.Now().UnixMilli()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.SAdd(ctx, "shop:tube:set", "T").Err())
	add := func(queue, id string, due int64) {
		t.Helper()
		must(db.HSet(ctx, "shop:tube:T:job:"+id, "id", id, "dtr", 5, "ttr", 1500, "noe", 2, "data", "body "+id).Err())
		must(db.ZAdd(ctx, "shop:tube:T:queue:"+queue, redis.Z{Score: float64(due), Member: id}).Err())
	}
	add("delay", "due", now-1000)
	add("delay", "delayed", now+3600_000)
	add("retain", "consumed", now+1000)
	add("failed", "failed", now)
	add("delay", strings.Repeat("x", 129), now+3600_000) // Wakecall does not accept its id
	add("delay", "never", math.MaxInt64)
	must(db.Set(ctx, "shop:tube:T:lock:consume", "uuid", 2*time.Second).Err())
	first, err := g.Claim(ctx, 100)
	must(err)
	if claimedIDs(first) != "delayed never" || first[1].Push.DueAt.Before(time.Now().Add(queue.MaxDelay)) || first[0].Push.DueAt.UnixMilli() != now+3600_000 ||
		first[0].Push.TTR != 1500*time.Millisecond {
		t.Fatalf("while a consumer has the lock: %+v", first)
	}
	harness.Eventually(t, time.Minute, "the due job is claimed", func() error {
		jobs, err := g.Claim(ctx, 100)
		return errors.Join(err, harness.Equal("claimed", claimedIDs(jobs), "due"))
	})
	must(db.SAdd(ctx, "shop:tube:set", "U").Err()) // by a producer, while the import follows
	_, err = g.Claim(ctx, 100)
	must(err)
	if fmt.Sprint(created) != "[T U]" {
		t.Errorf("created the tubes %v, want each once", created)
	}
	left, err := g.Left(ctx)
	must(err)
	for _, jobs := range byClaim(left) {
		if p := jobs[0].Push; string(p.Body) != "body "+p.ID || p.Topic != "grape.T" {
			t.Errorf("claimed %+v", p)
		}
		must(g.Drop(ctx, jobs))
	}
	keys := db.Keys(ctx, "shop:tube:T:job:*").Val()
	if len(left) != 3 || len(keys) != 3 || db.Exists(ctx, "shop:wakecall:claims").Val() != 0 {
		t.Errorf("%d claims, then the jobs %v are left, want the consumed, the failed and the long one", len(left), keys)
	}
}

// TestConsumersOfEarlierGrapesLockTheirTube with another key.
func TestConsumersOfEarlierGrapesLockTheirTube(t *testing.T) {
	t.Parallel()
	db, ctx := oldRedis(t), t.Context()
	for group, lock := range map[string]string{"": "lock:consume:T", "shop": "shop:lock:consume:T"} {
		g := &Grape{Redis: db, Group: group, TopicOf: func(tube string) string { return "grape." + tube }}
		g.Create = func(context.Context, ...string) error { return nil }
		if err := errors.Join(
			db.SAdd(ctx, g.key("tube:set"), "T").Err(), db.Set(ctx, lock, "uuid", 0).Err(),
			db.HSet(ctx, g.tubeKey("T", "job:1"), "id", "1", "ttr", 1500, "data", "eA==").Err(),
			db.ZAdd(ctx, g.tubeKey("T", "queue:delay"), redis.Z{Score: 1, Member: "1"}).Err(),
		); err != nil {
			t.Fatal(err)
		}
		if jobs, err := g.Claim(ctx, 100); err != nil || len(jobs) > 0 {
			t.Errorf("%s: claimed %s while a consumer has the lock, %v", lock, claimedIDs(jobs), err)
		}
		db.Del(ctx, lock)
		if jobs, err := g.Claim(ctx, 100); err != nil || claimedIDs(jobs) != "1" {
			t.Errorf("%s: then claimed %s, %v", lock, claimedIDs(jobs), err)
		}
	}
}

func TestDeletedJobsHideNoOthers(t *testing.T) {
	t.Parallel()
	db, ctx := oldRedis(t), t.Context()
	p := NewPHPDQ([]phpTopic{{Topic: "a", Callback: "http://x/", Status: 1}}, []*redis.Client{db}, time.UTC)
	if _, err := p.Topics(ctx); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		db.RPush(ctx, "dq_2ready_queue", "other:1", "a:1", "a:2", "a:3", "a:4").Err(),
		db.HSet(ctx, "dq_job_info", "a:4", "{}", "other:1", "{}").Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := p.Claim(ctx, 2)
	if err != nil || claimedIDs(jobs) != "4" || db.LLen(ctx, "dq_2ready_queue").Val() != 1 {
		t.Errorf("claimed %+v, %v, want the job after the deleted ones", jobs, err)
	}
	left, err := p.Left(ctx)
	if err != nil || len(left) != 1 || left[0].Push.Via != jobs[0].Push.Via || left[0].Claimed.IsZero() {
		t.Errorf("%+v are left, %v", left, err)
	}
	if err := p.Drop(ctx, left); err != nil || db.Exists(ctx, phpClaims).Val() != 0 {
		t.Errorf("its claim is left: %v", err)
	}
}

// TestEntriesThatStayAreReadOnce while other jobs are found, and again when there are none: an old system may have more
// entries that the import must leave than jobs.
func TestEntriesThatStayAreReadOnce(t *testing.T) {
	t.Parallel()
	db, ctx := oldRedis(t), t.Context()
	p := NewPHPDQ([]phpTopic{{Topic: "a", Callback: "http://x/", Status: 1}}, []*redis.Client{db}, time.UTC)
	if _, err := p.Topics(ctx); err != nil {
		t.Fatal(err)
	}
	const stay, jobs, n = 1000, 100, 10
	add := func(topic string, id, score int) {
		t.Helper()
		name := fmt.Sprint(topic, ":", id)
		err := errors.Join(db.HSet(ctx, phpInfo, name, "{}").Err(),
			db.ZAdd(ctx, "dq_bucket_0", redis.Z{Score: float64(score), Member: name}).Err())
		if err != nil {
			t.Fatal(err)
		}
	}
	for id := range stay {
		add("other", id, 1)
	}
	for id := range jobs {
		add("a", id, 2)
	}
	claimed := func() (count int) {
		t.Helper()
		for {
			list, err := p.Claim(ctx, n)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				return count
			}
			count += len(list)
		}
	}
	if got := claimed(); got != jobs {
		t.Errorf("claimed %d jobs, want %d", got, jobs)
	}
	_, stats, _ := strings.Cut(db.Info(ctx, "commandstats").Val(), "cmdstat_evalsha:calls=")
	calls, _, _ := strings.Cut(stats, ",")
	if got, err := strconv.Atoi(calls); err != nil || got > 2*stay/n+2*jobs/n+10 {
		t.Errorf("%d scripts for %d entries in steps of %d, %v", got, stay+jobs, n, err)
	}
	add("a", jobs, 0) // before those that stay
	if got := claimed(); got != 1 {
		t.Errorf("then claimed %d jobs, want the one that was added", got)
	}
}

// TestScriptsRunOnOldServers: before 5.0, a server accepts no write after TIME unless it replicates commands.
func TestScriptsRunOnOldServers(t *testing.T) {
	t.Parallel()
	names, err := sources.ReadDir(".")
	if err != nil || len(names) < 5 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		source, err := sources.ReadFile(name.Name())
		if err != nil {
			t.Fatal(err)
		}
		before, _, found := strings.Cut(string(source), "redis.call('TIME')")
		if found && !strings.Contains(before, "if redis.replicate_commands then redis.replicate_commands() end") {
			t.Errorf("%s reads the time without replicating commands", name.Name())
		}
	}
}
