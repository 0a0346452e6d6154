package grape

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/gateway/importer/importtest"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/harness"
)

// settings is a registry that only has the setting with the tubes.
type settings struct {
	tubes
	edits int
}

func (s *settings) Snapshot() *registry.Snapshot { return nil }

func (s *settings) EditSetting(_ context.Context, _, _ string, value any, edit func() error) error {
	list := value.(*tubes)
	*list = s.tubes
	err := edit()
	s.tubes, s.edits = *list, s.edits+1
	return err
}

func TestJobsAreClaimedUnlessAConsumerMayHaveThem(t *testing.T) {
	t.Parallel()
	db, ctx := importtest.Redis(t), t.Context()
	g, settings := newSource(db, "shop", false), &settings{}
	g.registry = settings
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
	if n, err := g.Count(ctx); n != 3 || err != nil {
		t.Errorf("%d jobs would be imported, %v", n, err)
	}
	var dead importer.DeadCounter = g
	if n, err := dead.Dead(ctx); n != 1 || err != nil {
		t.Errorf("%d failed jobs stay, %v", n, err)
	}
	first, err := g.Claim(ctx, 100)
	must(err)
	if importtest.IDs(first) != "delayed never" || first[1].Push.DueAt.Before(time.Now().Add(store.MaxDelay)) ||
		first[0].Push.DueAt.UnixMilli() != now+3600_000 || first[0].Push.TTR != 1500*time.Millisecond {
		t.Fatalf("while a consumer has the lock: %+v", first)
	}
	harness.Eventually(t, time.Minute, "the due job is claimed", func() error {
		jobs, err := g.Claim(ctx, 100)
		return errors.Join(err, harness.Equal("claimed", importtest.IDs(jobs), "due"))
	})
	must(db.SAdd(ctx, "shop:tube:set", "U").Err()) // by a producer, while the import follows
	_, err = g.Claim(ctx, 100)
	must(err)
	if got := fmt.Sprint(settings.Tubes); got != "[T U]" || settings.edits != 2 {
		t.Errorf("created the tubes %s in %d steps, want each once", got, settings.edits)
	}
	left, err := g.Left(ctx)
	must(err)
	for _, job := range left {
		if p := job.Push; string(p.Body) != "body "+p.ID || p.Topic != topicOf("T") {
			t.Errorf("claimed %+v", p)
		}
	}
	importtest.Drop(t, g, left)
	keys := db.Keys(ctx, "shop:tube:T:job:*").Val()
	if len(left) != 3 || len(keys) != 3 || db.Exists(ctx, "shop:wakecall:claims").Val() != 0 {
		t.Errorf("%d claims, then the jobs %v are left, want the consumed, the failed and the long one", len(left),
			keys)
	}
}

// TestConsumersOfEarlierGrapesLockTheirTube with another key.
func TestConsumersOfEarlierGrapesLockTheirTube(t *testing.T) {
	t.Parallel()
	db, ctx := importtest.Redis(t), t.Context()
	for group, lock := range map[string]string{"": "lock:consume:T", "shop": "shop:lock:consume:T"} {
		g := newSource(db, group, false)
		g.registry = &settings{}
		if err := errors.Join(
			db.SAdd(ctx, g.key("tube:set"), "T").Err(), db.Set(ctx, lock, "uuid", 0).Err(),
			db.HSet(ctx, g.tubeKey("T", "job:1"), "id", "1", "ttr", 1500, "data", "eA==").Err(),
			db.ZAdd(ctx, g.tubeKey("T", "queue:delay"), redis.Z{Score: 1, Member: "1"}).Err(),
		); err != nil {
			t.Fatal(err)
		}
		if jobs, err := g.Claim(ctx, 100); err != nil || len(jobs) > 0 {
			t.Errorf("%s: claimed %s while a consumer has the lock, %v", lock, importtest.IDs(jobs), err)
		}
		db.Del(ctx, lock)
		if jobs, err := g.Claim(ctx, 100); err != nil || importtest.IDs(jobs) != "1" {
			t.Errorf("%s: then claimed %s, %v", lock, importtest.IDs(jobs), err)
		}
	}
}
