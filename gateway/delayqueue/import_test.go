package delayqueue

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/gateway/importer/importtest"
)

// msgpackJob is a job as delay-queue stores it.
func msgpackJob(topic, id, body string, delay, ttr int64) string {
	text := func(s string) string { return "\xda" + string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s }
	number := func(n int64) string { return "\xd3" + string(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	return "\x85" + text("Topic") + text(topic) + text("Id") + text(id) + text("Delay") + number(delay) + text("TTR") +
		number(ttr) + text("Body") + text(body)
}

func TestJobsAreClaimedUnlessAConsumerHasThem(t *testing.T) {
	t.Parallel()
	db, ctx := importtest.Redis(t), t.Context()
	d := newSource(db)
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
	if n, err := d.Count(ctx); n != 3 || err != nil {
		t.Errorf("%d jobs would be imported, %v", n, err)
	}
	first, err := d.Claim(ctx, 100)
	must(err)
	if importtest.IDs(first) != "ready" || first[0].Push.Topic != topicOf("a b") {
		t.Fatalf("first %+v, want the ready job", first)
	}
	second, err := d.Claim(ctx, 100)
	must(err)
	if importtest.IDs(second) != "delayed" {
		t.Fatalf("then %+v, want the delayed job", second)
	}
	if p := second[0].Push; p.DueAt.Unix() != now+3600 || p.TTR != time.Minute || string(p.Body) != " \x00\xff " {
		t.Errorf("it is %+v", p)
	}
	third, err := d.Claim(ctx, 100)
	must(err)
	if importtest.IDs(third) != "due" {
		t.Fatalf("then %+v, want the job that no timer moves", third)
	}
	left, err := d.Left(ctx)
	must(err)
	if len(left) != 3 {
		t.Errorf("%d claims are left, want 3", len(left))
	}
	importtest.Drop(t, d, left)
	if n := db.Exists(ctx, "wakecall_claims", "delayed", "due", "ready").Val(); n != 0 {
		t.Errorf("%d keys of claimed jobs are left", n)
	}
	if db.Exists(ctx, "popped").Val() != 1 {
		t.Error("the popped job is gone")
	}
	add("dq_bucket_2", "popped", now-10, now-10) // its ttr is over
	if again, err := d.Claim(ctx, 100); err != nil || importtest.IDs(again) != "popped" {
		t.Errorf("after its ttr: %+v %v", again, err)
	}
}
