package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/queuetest"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/leaks"
	"github.com/wakecall/wakecall/test/redistest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// draining is a queue of shard a, which is draining and has jobs of topic t with these ids, and shard b.
func draining(t *testing.T, o store.Options, ids ...string) (q *queue.Queue, a, b *store.Shard) {
	t.Helper()
	t.Parallel()
	o.Timeout = wait.Limit
	q = queue.Open(o)
	t.Cleanup(func() { _ = q.Close() })
	urls := map[string]string{}
	states := func(a, b string) []*store.Shard {
		t.Helper()
		var shards []store.ShardConfig
		for name, state := range map[string]string{"a": a, "b": b} {
			if urls[name] == "" {
				urls[name] = redistest.Start(t, redistest.Options{Quick: true}).URL()
			}
			shards = append(shards, store.ShardConfig{Name: name, URL: urls[name], State: state})
		}
		if err := q.Shards.Set(shards); err != nil {
			t.Fatal(err)
		}
		return q.Shards.All()
	}
	for _, s := range states("active", "draining") {
		wait.For(t, "the shard is adopted", func() bool { return queuetest.Adopt(t.Context(), s) == nil })
	}
	for _, id := range ids {
		if r := q.Push(t.Context(), store.Push{Topic: "t", ID: id, Delay: time.Hour, Body: []byte("1")}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	shards := states("draining", "active")
	return q, shards[0], shards[1]
}

// TestNoJobIsMovedToItsOwnShard, which would remove it: the shard has become active again.
func TestNoJobIsMovedToItsOwnShard(t *testing.T) {
	q, a, _ := draining(t, store.Options{}, "1", "2", "3")
	a.SetState("active")
	if err := q.Some(t.Context(), a, "t", []store.Job{{ID: "1"}, {ID: "2"}, {ID: "3"}}); err != nil {
		t.Error(err)
	}
	if n, err := q.Stats(t.Context(), []string{"t"}); err != nil || n["t"].Delayed != 3 {
		t.Errorf("the topic has %+v, %v", n["t"], err)
	}
}

// TestACopyThatIsRemovedAgainIsRecorded: its job was changed after it had been read, so the job stays where it is.
// Without a journal line, the copy would return when its shard loses data.
func TestACopyThatIsRemovedAgainIsRecorded(t *testing.T) {
	var recorded []string
	last := int64(0)
	q, a, b := draining(t, store.Options{Changed: func(kind store.ChangeKind, jobs []store.Job) error {
		for _, j := range jobs {
			if kind != store.MovedIn && kind != store.MovedOut {
				continue
			}
			recorded = append(recorded, fmt.Sprint(kind, " ", j.Shard))
			if j.Revision <= last {
				t.Errorf("%s at revision %d, after %d", kind, j.Revision, last)
			}
			last = j.Revision
		}
		return nil
	}}, "1")
	list, err := queue.ReadMoving(t.Context(), a, "t", "1")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	later := 2 * time.Hour
	if _, err := q.Change(t.Context(), "t", "1", store.Change{Delay: &later}); err != nil {
		t.Fatal(err)
	}
	if err := q.Move(t.Context(), a, b, list); err != nil {
		t.Fatal(err)
	}
	if j, err := q.Get(t.Context(), "t", "1"); err != nil || j.Shard != "a" ||
		!slices.Equal(recorded, []string{"move b", "leave b"}) {
		t.Errorf("the job is %+v, %v, recorded %q", j, err, recorded)
	}
}
