package alert

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/observe/refusals"
)

// refuse has pushes refused from a time on until now.
func (w *world) refuse(reason string, n int64, since time.Time) {
	w.refused = refusals.Streak{{Topic: "a", Reason: reason, N: n, First: since, Last: time.Now()}}
}

// TestRefusedPushesAreFound: by themselves after ten seconds, until 20 seconds after the last one. They are critical
// only if they go on.
func TestRefusedPushesAreFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		round := func() (refused []Finding, over Judge) {
			list, over := watch.Find(t.Context(), Defaults().Rules)
			return slices.DeleteFunc(list, func(f Finding) bool { return f.Kind != "refused" }), over
		}
		began := time.Now()
		w.refuse("timeout", 3, began)
		if list, _ := round(); len(list) != 0 {
			t.Errorf("found %+v at once", list)
		}
		time.Sleep(refusedWait)
		if list, _ := round(); len(list) != 1 || list[0].Key() != "refused" || list[0].Severity != Warning ||
			list[0].N != 3 || !list[0].BeganAt.Equal(began) {
			t.Errorf("found %+v", list)
		}
		w.refuse("timeout", 40, began)
		list, _ := round()
		if len(list) != 1 || list[0].Severity != Critical || list[0].N != 40 {
			t.Fatalf("found %+v", list)
		}
		time.Sleep(defaultSpan + time.Second)
		w.unread = errors.New("the database is away")
		if found, over := round(); len(found) != 0 || over(list[0]) {
			t.Error("it is over without the database")
		}
		w.unread, w.up = nil, false
		if found, over := round(); len(found) != 0 || over(list[0]) {
			t.Error("the database is asked though it is away")
		}
		w.up = true
		if found, over := round(); len(found) != 0 || !over(list[0]) {
			t.Errorf("it is not over: %+v", found)
		}
	})
}

// TestAnOutageWithRefusedPushesIsOneAlert: of the shard that is down, or full if that is why. It stays there until the
// pushes are accepted again.
func TestAnOutageWithRefusedPushesIsOneAlert(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason   string
		shards   []ShardFinding
		want     string
		severity string
	}{
		"down": {"down", []ShardFinding{{Shard: "r1", Kind: "slow"}, {Shard: "r2", Kind: "down"}, {Shard: "r3", Kind: "down"}},
			"shard/r2", Warning},
		"full":     {"full", []ShardFinding{{Shard: "r1", Kind: "memory"}}, "shard/r1", Critical},
		"not full": {"journal", []ShardFinding{{Shard: "r1", Kind: "memory"}}, "refused", Critical},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, watch := newWorld()
				began := time.Now()
				w.shards = test.shards
				time.Sleep(refusedWait)
				for range 2 {
					w.refuse(test.reason, 400, began)
					list, _ := watch.Find(t.Context(), Defaults().Rules)
					i := slices.IndexFunc(list, func(f Finding) bool { return f.Kind == "refused" })
					if i < 0 || list[i].Key() != test.want || list[i].Severity != test.severity {
						t.Errorf("found %+v, want it in %s", list, test.want)
					}
					w.shards = nil // it has ended, and a few more pushes were refused
				}
			})
		})
	}
}

func TestProcessesThatKeepDyingAreFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newWorld()
		asked := 0
		watch := NewWatch(Sources{Queue: w, Activity: w, Snapshot: w.watch().src.Snapshot,
			RegistryUp: func() bool { return true }, Journal: func() error { return nil },
			Shards: func() []ShardFinding { return nil },
			Deaths: func(context.Context) []Finding {
				asked++
				return []Finding{{Cause: Cause{Kind: "process", Severity: Warning, N: 4}}}
			}})
		if got := kinds(t, watch, time.Minute); !slices.Equal(got, []string{"process "}) || asked > 5 {
			t.Errorf("found %q, after asking %d times", got, asked)
		}
	})
}
