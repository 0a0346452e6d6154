package store_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/store"
)

// dropped is a topic whose jobs are deleted through a proxy while others are pushed, and the journal of both.
type dropped struct {
	*fixture
	other   *queue.Queue // not through the proxy
	deletes atomic.Bool
	mu      sync.Mutex
	entries []reconcile.Entry
	steps   atomic.Int32 // calls of the script
	lose    atomic.Int32 // the step whose answer is lost
}

func (d *dropped) record(entries ...reconcile.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, entries...)
}

func newDropped(t *testing.T, topic string) *dropped {
	d := &dropped{}
	url, _ := startRedis(t)
	link := proxied(t, url, func() (request, answer func([]byte) bool) {
		var deaf atomic.Bool
		request = func(b []byte) bool {
			if strings.Contains(string(b), topic) && d.deletes.Load() {
				step := d.steps.Add(1)
				if step > 1 {
					d.pushes(topic, fmt.Sprint("before step ", step), 30)
				}
				deaf.Store(step == d.lose.Load())
			}
			return true
		}
		return request, func([]byte) bool { return !deaf.Load() }
	})
	d.fixture = fixtureOn(t, link, store.Options{Changed: func(kind store.ChangeKind, jobs []store.Job) error {
		for _, j := range jobs {
			e := reconcile.Entry{Kind: reconcile.EntryDeleted, Revision: j.Revision, Job: j}
			if kind == store.Cleared {
				e.Kind = reconcile.EntryCleared
			}
			d.record(e)
		}
		return nil
	}})
	other := fixtureOn(t, url, store.Options{})
	if n, err := d.q.DropTopic(t.Context(), topic); n != 0 || err != nil { // the server knows the script now
		t.Fatalf("deleted %d, %v", n, err)
	}
	d.other = other.q
	d.pushes(topic, "before", 2000)
	return d
}

func (d *dropped) pushes(topic, id string, n int) {
	for i := range n {
		r := d.other.Push(d.ctx, store.Push{Topic: topic, ID: fmt.Sprint(id, ".", i), Delay: time.Hour})
		if r.Err != nil {
			d.Errorf("push: %v", r.Err)
			return
		}
		r.Job.Topic, r.Job.ID = topic, fmt.Sprint(id, ".", i)
		d.record(reconcile.Entry{Kind: reconcile.EntryStored, Revision: r.Job.Revision, Job: r.Job})
	}
}

func (d *dropped) ids(topic string) []string {
	list, err := d.s.Redis().HKeys(d.ctx, store.Prefix(0)+"j:"+topic).Result()
	if err != nil {
		d.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// TestJobsThatADeletionOfTheirTopicDeletedStayDeleted when the server loses everything and the journal is replayed, also
// those that were pushed while it went on, and when the answer of a step was lost. The others are all there.
func TestJobsThatADeletionOfTheirTopicDeletedStayDeleted(t *testing.T) {
	const topic = "deleted.while.pushed"
	for name, lose := range map[string]int32{"no loss": 0, "the first answer": 1, "the fifth answer": 5} {
		t.Run(name, func(t *testing.T) {
			d := newDropped(t, topic)
			d.lose.Store(lose)
			d.deletes.Store(true)
			if n, err := d.q.DropTopic(t.Context(), topic); n == 0 || err != nil {
				t.Fatalf("deleted %d, %v", n, err)
			}
			d.deletes.Store(false)
			if d.steps.Load() < 5 {
				t.Fatalf("the deletion took %d steps", d.steps.Load())
			}
			want := d.ids(topic)
			d.flush()
			if _, err := reconcile.Replay(t.Context(), d.s.Buckets()[0], reconcile.ReplayByHand, "", false, d.entries); err != nil {
				t.Fatal(err)
			}
			got := d.ids(topic)
			back := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return slices.Contains(want, id) })
			missing := slices.DeleteFunc(want, func(id string) bool { return slices.Contains(got, id) })
			if len(back) > 0 || len(missing) > 0 {
				t.Errorf("%d jobs are back that were deleted, and %d are missing", len(back), len(missing))
			}
		})
	}
}
