package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// heartbeat attends the host's only shard when told to.
func (h *host) heartbeatOf(t fataler) *heartbeat {
	k, err := NewReconciler(ReconcilerOptions{
		Dir: h.dir, Buckets: func() []*store.Bucket { return nil }, Queue: h.queue, Patience: wait.Limit,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("reconciler: %v", err)
	}
	return newHeartbeat(k, h.queue.Shards.Buckets()[0])
}

// attendAll has all hosts attend at once, as they do: the shard opens when all of them have replayed their journals.
func attendAll(t fataler, attendants ...*heartbeat) {
	errs := make([]error, len(attendants))
	var wg sync.WaitGroup
	for i, a := range attendants {
		wg.Go(func() { errs[i] = a.beat(context.Background()) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("attend: %v", err)
	}
}

// world has the state that two hosts give the jobs of one shard, and the expected result.
type world struct {
	hosts [2]*host
	jobs  map[string]*wanted
	calls []call // ended, but not settled
	pull  bool
	n     int
}

type call struct {
	lease *store.Job
	job   *wanted
}

type wanted struct {
	push   store.Push
	dead   bool
	called bool // its delivery is in the journal, but not settled
}

func (w *world) host(t *rapid.T) *host { return w.hosts[rapid.IntRange(0, 1).Draw(t, "host")] }

func (w *world) id(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id")
}

func (w *world) push(t *rapid.T, onDuplicate store.OnDuplicate) {
	w.n++
	id := w.id(t)
	p := store.Push{
		Topic: "t", ID: id, Body: fmt.Appendf(nil, `"pushed %d"`, w.n), OnDuplicate: onDuplicate,
		Delay:    rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "delay"),
		Priority: rapid.SampledFrom([]store.Priority{store.High, store.Normal, store.Low}).Draw(t, "priority"),
	}
	if rapid.Bool().Draw(t, "extras") {
		p.Order = new(rapid.Uint32Range(0, 2).Draw(t, "order"))
		p.TTL, p.Retry, p.Headers = time.Hour, []time.Duration{time.Hour}, map[string]string{"n": fmt.Sprint(w.n)}
	}
	r := w.host(t).queue.Push(context.Background(), p)
	if r.Err != nil {
		t.Fatalf("push: %v", r.Err)
	}
	if !r.Duplicate || onDuplicate == store.Replace {
		p.DueAt, p.ExpiresAt = r.Job.DueAt, r.Job.ExpiresAt
		w.jobs[id] = &wanted{push: p}
	}
}

func (w *world) Push(t *rapid.T) { w.push(t, store.Keep) }

func (w *world) Replace(t *rapid.T) { w.push(t, store.Replace) }

func (w *world) Change(t *rapid.T) {
	w.n++
	id, body := w.id(t), fmt.Appendf(nil, `"changed %d"`, w.n)
	job, err := w.host(t).queue.Change(context.Background(), "t", id, store.Change{Body: &body})
	if err == nil {
		w.jobs[id].push.Body, w.jobs[id].push.DueAt = body, job.DueAt
	}
}

func (w *world) Run(t *rapid.T) {
	id := w.id(t)
	job, err := w.host(t).queue.RunNow(context.Background(), "t", id, nil)
	if err == nil {
		if w.jobs[id].dead {
			w.jobs[id].push.ExpiresAt = time.Time{}
		}
		w.jobs[id].push.DueAt, w.jobs[id].dead = job.DueAt, false
	}
}

func (w *world) Delete(t *rapid.T) {
	id := w.id(t)
	if err := w.host(t).queue.Delete(context.Background(), "t", id, nil); err == nil {
		delete(w.jobs, id)
	}
}

func (w *world) Attempt(t *rapid.T) {
	w.n++
	v := rapid.SampledFrom([]store.Verb{store.Done, store.Retry, store.Bury}).Draw(t, "verdict")
	work := w.host(t).work
	if w.pull {
		work = w.host(t).pulled
	}
	_, id, err := work(context.Background(), fmt.Sprint(w.n), v)
	if err != nil {
		t.Fatalf("attempt: %v", err)
	}
	switch {
	case id == "":
	case v == store.Done:
		delete(w.jobs, id)
	case v == store.Bury:
		w.jobs[id].dead = true
	}
}

// Deliver delivers a job; the journal has it, the shard does not yet.
func (w *world) Deliver(t *rapid.T) {
	if w.pull {
		return
	}
	w.n++
	h := w.host(t)
	l, err := h.reserve(context.Background(), fmt.Sprint(w.n))
	if err != nil {
		t.Fatalf("reserve: %v", err)
	}
	if l == nil {
		return
	}
	if err := h.attempted(l, store.Done); err != nil {
		t.Fatalf("attempt: %v", err)
	}
	w.jobs[l.ID].called = true
	w.calls = append(w.calls, call{l, w.jobs[l.ID]})
}

func (w *world) Settle(t *rapid.T) {
	if len(w.calls) == 0 {
		return
	}
	c := w.calls[0]
	w.calls = w.calls[1:]
	is := w.jobs[c.lease.ID] == c.job
	held, err := w.host(t).settle(context.Background(), c.lease, store.Done)
	if err != nil || held != is {
		t.Fatalf("settled %s: %v, %v", c.lease.ID, held, err)
	}
	if is {
		delete(w.jobs, c.lease.ID)
	}
}

// lose applies a loss to the model: jobs that a journal has as delivered are gone.
func (w *world) lose() {
	maps.DeleteFunc(w.jobs, func(_ string, j *wanted) bool { return j.called })
}

// configure sets the topic's settings again after they were lost.
func (w *world) configure(t *rapid.T) {
	topics := slices.Values([]store.TopicConf{{Name: "t", TTR: time.Minute, MaxAttempts: 10, Pull: w.pull}})
	if err := w.hosts[0].queue.SetTopics(context.Background(), topics); err != nil {
		t.Fatalf("topics: %v", err)
	}
}

// pulled is work for a worker of a pull topic.
func (h *host) pulled(ctx context.Context, _ string, v store.Verb) (topic, id string, err error) {
	jobs, err := h.queue.Take(ctx, store.TakeRequest{Topics: []string{"t"}, Max: 1})
	if len(jobs) == 0 {
		return "", "", err
	}
	if v == store.Retry {
		v = store.Fail
	}
	ended := h.queue.End(ctx, []store.End{{Lease: jobs[0].Lease, Verb: v, Retry: []time.Duration{time.Hour}}})
	return jobs[0].Topic, jobs[0].ID, ended[0].Err
}

// SetClock sets the clock of a host, even to another day.
func (w *world) SetClock(t *rapid.T) {
	off := []time.Duration{0, -10 * time.Minute, -24 * time.Hour, 24 * time.Hour}
	w.host(t).off.Store(int64(rapid.SampledFrom(off).Draw(t, "clock")))
}

func (w *world) dead(ids ...string) (list []string) {
	for id, j := range w.jobs {
		if j.dead && (len(ids) == 0 || slices.Contains(ids, id)) {
			list = append(list, id)
		}
	}
	return list
}

func (w *world) RedriveDead(t *rapid.T) {
	var ids []string
	if rapid.Bool().Draw(t, "by id") {
		ids = []string{w.id(t)}
	}
	which := w.dead(ids...)
	n, err := w.host(t).queue.EndDead(context.Background(), store.DeadCall{Kind: store.Redriven, Topic: "t", IDs: ids, Limit: 100})
	if err != nil || n != len(which) {
		t.Fatalf("re-drove %d of %v, %v", n, which, err)
	}
	for _, id := range which {
		w.jobs[id].dead, w.jobs[id].push.DueAt = false, time.Time{} // now
		w.jobs[id].push.ExpiresAt = time.Time{}
	}
}

func (w *world) RedriveAs(t *rapid.T) {
	which := w.dead()
	// 60 is more than a test makes: a job that used all of its attempts would differ from the model.
	as := store.Renewal{MaxAttempts: rapid.SampledFrom([]int{0, 60}).Draw(t, "attempts")}
	if rapid.Bool().Draw(t, "ttl") {
		as.TTL = time.Hour
	}
	n, err := w.host(t).queue.EndDead(context.Background(), store.DeadCall{Kind: store.Redriven, Topic: "t", As: &as, Limit: 100})
	if err != nil || n != len(which) {
		t.Fatalf("re-drove %d of %v, %v", n, which, err)
	}
	for _, id := range which {
		job, err := w.hosts[0].queue.Get(context.Background(), "t", id)
		if err != nil || job.ExpiresAt.IsZero() != (as.TTL == 0) {
			t.Fatalf("re-drove %+v, %v", job, err)
		}
		p := &w.jobs[id].push
		w.jobs[id].dead, p.DueAt, p.ExpiresAt = false, job.DueAt, job.ExpiresAt
		if as.MaxAttempts > 0 {
			p.MaxAttempts = as.MaxAttempts
		}
	}
}

func (w *world) DeleteDead(t *rapid.T) {
	var ids []string
	if rapid.Bool().Draw(t, "by id") {
		ids = []string{w.id(t)}
	}
	which := w.dead(ids...)
	n, err := w.host(t).queue.EndDead(context.Background(), store.DeadCall{Kind: store.DeadDeleted, Topic: "t", IDs: ids, Limit: 100})
	if err != nil || n != len(which) {
		t.Fatalf("deleted %d of %v, %v", n, which, err)
	}
	for _, id := range which {
		delete(w.jobs, id)
	}
}

func (w *world) DropTopic(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
		return
	}
	if _, err := w.host(t).queue.DropTopic(context.Background(), "t"); err != nil {
		t.Fatalf("drop: %v", err)
	}
	clear(w.jobs)
}

// check compares the shard's jobs with the answers of the hosts.
func (w *world) check(t *rapid.T) {
	for _, id := range []string{"a", "b", "c", "d"} {
		job, err := w.hosts[0].queue.Get(context.Background(), "t", id)
		want := w.jobs[id]
		switch {
		case want == nil && !errors.Is(err, store.ErrNotFound):
			t.Fatalf("%s ended, but exists: %+v, %v", id, job, err)
		case want == nil:
		case err != nil:
			t.Fatalf("%s is lost: %v", id, err)
		case want.dead != (job.State == store.Dead):
			t.Fatalf("%s is %s, want dead %v", id, job.State, want.dead)
		case string(job.Body) != string(want.push.Body) || job.Priority != want.push.Priority:
			t.Fatalf("%s is %s %s, want %s %s", id, job.Priority, job.Body, want.push.Priority, want.push.Body)
		case !want.push.DueAt.IsZero() && !job.DueAt.Equal(want.push.DueAt):
			t.Fatalf("%s is due %s, want %s", id, job.DueAt, want.push.DueAt)
		case !job.ExpiresAt.Equal(want.push.ExpiresAt) || !maps.Equal(job.Headers, want.push.Headers) ||
			!slices.Equal(job.Retry, want.push.Retry) || job.MaxAttempts != want.push.MaxAttempts ||
			!reflect.DeepEqual(job.Order, want.push.Order):
			t.Fatalf("%s is %+v, want %+v", id, job, want.push)
		}
	}
}

// TestRecoveryByTwoHosts: pushes, replacements, changes, deletions, callbacks, deaths, re-drives and deletions of
// dead jobs, in any order and through both hosts; the shard returns to any earlier state, or loses everything.
// Afterwards every job is as it was last answered, whichever host has the line.
func TestRecoveryByTwoHosts(t *testing.T) {
	url, client := startRedis(t)
	rapid.Check(t, func(rt *rapid.T) {
		ctx := context.Background()
		if err := client.FlushAll(ctx).Err(); err != nil {
			rt.Fatalf("flush: %v", err)
		}
		w := &world{hosts: [2]*host{newHost(t, url), newHost(t, url)}, jobs: map[string]*wanted{}}
		w.pull = rapid.Bool().Draw(rt, "pull")
		a, b := w.hosts[0].heartbeatOf(t), w.hosts[1].heartbeatOf(t)
		attendAll(rt, a)
		attendAll(rt, b, a)
		attendAll(rt, a, b)
		w.configure(rt)
		do := []func(*rapid.T){
			w.Push, w.Push, w.Push, w.Replace, w.Change, w.Run, w.Delete, w.Attempt, w.Attempt, w.RedriveDead,
			w.RedriveAs, w.DeleteDead, w.DropTopic, w.Deliver, w.Settle, w.SetClock,
			func(rt *rapid.T) {
				// otherwise it would be left to its lease, which the data has as long as it has the position
				for len(w.calls) > 0 {
					w.Settle(rt)
				}
				attendAll(rt, []*heartbeat{a, b}[rapid.IntRange(0, 1).Draw(rt, "attends")])
			},
		}
		for range rapid.IntRange(1, 2).Draw(rt, "losses") {
			steps := rapid.IntRange(1, 20).Draw(rt, "steps")
			moment, held := rapid.IntRange(-1, steps).Draw(rt, "the first lost step"), memory{}
			for i := range steps {
				if i == moment {
					held = remember(rt, client)
				}
				do[rapid.IntRange(0, len(do)-1).Draw(rt, "operation")](rt)
			}
			if moment == steps {
				held = remember(rt, client)
			}
			w.check(rt)
			held.forget(rt, client)
			client.HDel(ctx, "wk:{0}:cmp", "run") // another server
			if _, err := w.hosts[0].queue.Get(ctx, "t", "a"); err == nil || errors.Is(err, store.ErrNotFound) {
				rt.Fatalf("a server that was not compared answered: %v", err)
			}
			attendAll(rt, a, b)
			ready(t, w.hosts[0], w.hosts[1])
			w.lose()
			w.check(rt)
			w.configure(rt)
		}
		_ = w.hosts[0].queue.Close()
		_ = w.hosts[1].queue.Close()
	})
}
