package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/queue"
)

// TestADigestHasNewDeathsOnly, and only of topics with addresses. It names them though the topic's last attempts were
// delivered.
func TestADigestHasNewDeathsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.topics["b"].Emails = nil
		w.last = []activity.Attempt{{ID: "7", Outcome: "done"}}
		died := func(n int64) {
			for _, name := range []string{"a", "b"} {
				w.totals[name] = observe.TopicTotals{Died: map[string]int64{"r1": n}}
			}
			w.active = []string{"a", "b"}
		}
		died(7) // before its first round
		kinds(t, watch, 0)
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("old deaths: %+v", list)
		}
		died(9)
		kinds(t, watch, 0)
		list := watch.Dead(t.Context())
		if len(list) != 1 || list[0].Topic != "a" || list[0].Count != 2 ||
			fmt.Sprint(list[0].Last) != "[{0 the endpoint answered 500} {1 the endpoint answered 500}]" {
			t.Errorf("new deaths: %+v", list)
		}
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("the same again: %+v", list)
		}
		died(12) // while no watch runs
		watch = w.watch()
		kinds(t, watch, 0)
		w.lost = errors.New("away")
		if list := watch.Dead(t.Context()); len(list) > 0 {
			t.Errorf("without the registry: %+v", list)
		}
		w.lost = nil
		if list := watch.Dead(t.Context()); len(list) != 1 || list[0].Count != 3 {
			t.Errorf("a new watch: %+v", list)
		}
	})
}

// TestDeathsOfOtherShardsDoNotWait while a shard is down for six minutes: a mail tells them within two minutes. Those of
// that shard are reported when it is back, each once, also by a host that takes over meanwhile.
func TestDeathsOfOtherShardsDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, watch := newWorld()
		w.active = []string{"a"}
		other := w.watch()
		d := newDay(t)
		d.opts.Find = func(ctx context.Context, r Rules) ([]Finding, Judge) {
			other.Find(ctx, r)
			return watch.Find(ctx, r)
		}
		d.opts.Dead = func(ctx context.Context) []DeadTopic { return watch.Dead(ctx) }
		read := func(died map[string]int64, missing ...string) {
			var n int64
			for _, some := range died {
				n += some
			}
			w.totals["a"] = observe.TopicTotals{Total: observe.Totals{Pushed: n, Died: n, Dropped: n}, Died: died}
			if w.err = nil; len(missing) > 0 {
				w.err = &queue.PartialError{Shards: missing, Err: errors.New("refused")}
			}
		}
		told := func() (list []string) {
			for _, m := range d.mails(w.topics["a"].Emails[0]) {
				list = append(list, m.Title)
			}
			return list
		}
		want := func(titles ...string) {
			t.Helper()
			if got := told(); !slices.Equal(got, titles) {
				t.Fatalf("the mails are %q, want %q", got, titles)
			}
		}
		read(map[string]int64{"r1": 4, "r2": 7})
		d.pass(t, time.Minute)
		want()
		read(map[string]int64{"r1": 5}, "r2")
		d.pass(t, 2*time.Minute)
		want("1 job of a is dead")
		watch = other
		read(map[string]int64{"r1": 8}, "r2")
		d.pass(t, 15*time.Minute)
		want("1 job of a is dead", "3 jobs of a are dead")
		read(map[string]int64{"r1": 8, "r2": 9})
		d.pass(t, 15*time.Minute)
		want("1 job of a is dead", "3 jobs of a are dead", "2 jobs of a are dead")
		read(map[string]int64{"r1": 9}) // r2 was removed
		d.pass(t, 15*time.Minute)
		read(map[string]int64{"r1": 10})
		d.pass(t, 15*time.Minute)
		if got := told(); len(got) != 4 {
			t.Errorf("after a shard was removed the mails are %q", got)
		}
	})
}
