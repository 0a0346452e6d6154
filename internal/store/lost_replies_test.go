package store_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
)

// cutRounds is how often each action loses its reply: with WAKECALL_TEST_LONG=1 they are 2,000 replies in all.
func cutRounds(actions int) int {
	if os.Getenv("WAKECALL_TEST_LONG") == "1" {
		return (2000 + actions - 1) / actions
	}
	return 2
}

// cutting is a shard whose nodes lose replies.
type cutting struct {
	*fixture
	nodes    []*redistest.Node
	mu       sync.Mutex
	accepted map[string]bool // pushes, by id
	changed  map[string]store.ChangeKind
	ended    map[string]bool
}

// cut runs an action whose first reply is lost, and fails when none was.
func (c *cutting) cut(id string, action func()) {
	c.Helper()
	var lost []<-chan struct{}
	for _, n := range c.nodes {
		lost = append(lost, n.CutReply(id))
	}
	action()
	for i, n := range c.nodes {
		n.Proxy.KeepReplies()
		select {
		case <-lost[i]:
			return
		default:
		}
	}
	c.Fatalf("%s: no reply was lost", id)
}

func cuttingOn(t *testing.T, d *redistest.Deployment) *cutting {
	c := &cutting{nodes: d.Nodes, accepted: map[string]bool{}, changed: map[string]store.ChangeKind{}, ended: map[string]bool{}}
	record := func(f func()) error { c.mu.Lock(); defer c.mu.Unlock(); f(); return nil }
	c.fixture = fixtureOn(t, d.URLs[0], store.Options{
		Accepted: func(pushes []store.Push, results []store.Result) error {
			return record(func() {
				for i := range pushes {
					c.accepted[pushes[i].ID] = c.accepted[pushes[i].ID] || results[i].Err == nil
				}
			})
		},
		Changed: func(kind store.ChangeKind, jobs []store.Job) error {
			return record(func() {
				for _, j := range jobs {
					c.changed[j.ID] = kind
				}
			})
		},
		Ended: func(list []store.Ended) error {
			return record(func() {
				for _, e := range list {
					c.ended[e.ID] = c.ended[e.ID] || e.Err == nil
				}
			})
		},
	})
	eventually(t, "the shard is adopted", func() bool { return adoptAll(t.Context(), c.s) == nil })
	eventually(t, "every bucket answers", func() bool {
		for b := range c.s.Buckets() {
			if _, err := c.s.Buckets()[b].Advance(t.Context()); err != nil {
				return false
			}
		}
		return true
	})
	c.loadScripts() // the reply that is lost must not be NOSCRIPT
	return c
}

// has returns a value that a journal got.
func has[V any](c *cutting, m map[string]V, id string) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	return m[id]
}

func (c *cutting) dead(topic string, n int) {
	c.Helper()
	for i := range n {
		c.push(topic, fmt.Sprint(topic, "-", i), 0)
	}
	var st []store.End
	for _, l := range c.reserveOf(topic, topic, n, false) {
		st = append(st, store.End{Lease: l.Lease, Verb: store.Bury, Attempt: &store.Attempt{StartedAt: 1}})
	}
	if _, err := c.s.BucketOf(topic).End(c.ctx, st); err != nil || len(st) != n {
		c.Fatalf("%d died, %v", len(st), err)
	}
}

// reserveOf reserves jobs of the topic's bucket.
func (c *cutting) reserveOf(topic, token string, n int, again bool) []*store.Job {
	c.Helper()
	got, err := c.s.BucketOf(topic).Reserve(c.ctx, store.Reserve{Worker: "w", Token: token, Max: n, Pattern: "0102010201", Again: again})
	if err != nil {
		c.Fatal(err)
	}
	return got.Jobs
}

func (c *cutting) counts(topic string) store.Stats {
	c.Helper()
	m, err := c.q.Stats(c.ctx, []string{topic})
	if err != nil {
		c.Fatal(err)
	}
	return m[topic]
}

// TestLostRepliesOnEveryDeployment cuts the first reply of each kind of call: what is done is done once, its number of
// attempts is right, and each change that is accepted is in the journal.
func TestLostRepliesOnEveryDeployment(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"standalone", "cluster", "sentinel"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := cuttingOn(t, redistest.Kinds[kind](t))
			actions := []func(*cutting, string){
				cutPush, cutPushThatRefuses, cutPushThatReplaces, cutDelete, cutChange, cutRun, cutRedrive,
				cutDeleteDead, cutReserve, cutSettle, cutTake, cutEnd,
			}
			for round := range cutRounds(len(actions)) {
				for i, action := range actions {
					action(c, fmt.Sprintf("lost.%d.%d", round, i))
				}
			}
		})
	}
}

func (c *cutting) unavailable(what, id string, err error) {
	c.Helper()
	if _, ok := errors.AsType[*store.UnavailableError](err); !ok {
		c.Errorf("%s %s: %v; want an error that says that the outcome is unknown", what, id, err)
	}
}

func (c *cutting) cutPushAs(id string, how store.OnDuplicate) {
	c.Helper()
	c.cut(id, func() {
		r := c.q.Push(c.ctx, store.Push{Topic: "lost", ID: id, Delay: time.Hour, OnDuplicate: how, Body: []byte(id)})
		if r.Err != nil || r.Duplicate || !has(c, c.accepted, id) {
			c.Errorf("push %s: %+v, in the journal %v", id, r, has(c, c.accepted, id))
		}
	})
	c.get("lost", id)
}

func cutPush(c *cutting, id string) { c.cutPushAs(id, store.Keep) }

func cutPushThatRefuses(c *cutting, id string) { c.cutPushAs(id, store.Refuse) }

func cutPushThatReplaces(c *cutting, id string) { c.cutPushAs(id, store.Replace) }

// A deletion whose job is gone may be its own or an earlier one: the journal has it in any case.
func cutDelete(c *cutting, id string) {
	c.push("lost", id, time.Hour)
	c.cut(id, func() { c.unavailable("delete", id, c.q.Delete(c.ctx, "lost", id, nil)) })
	c.gone("lost", id)
	if has(c, c.changed, id) != store.Deleted {
		c.Errorf("the deletion of %s is not in the journal", id)
	}
}

func cutChange(c *cutting, id string) {
	r := c.push("lost", id, time.Hour)
	body := []byte("changed")
	match := store.Match{c.get("lost", id).ETag}
	c.cut(id, func() {
		_, err := c.q.Change(c.ctx, "lost", id, store.Change{Body: &body, Match: match})
		c.unavailable("change", id, err)
	})
	if j := c.get("lost", id); string(j.Body) != "changed" || j.Revision <= r.Job.Revision {
		c.Errorf("after the change of %s: %+v", id, j)
	}
}

func cutRun(c *cutting, id string) {
	c.push(id, id, time.Hour)
	c.cut(id, func() {
		if j, err := c.q.RunNow(c.ctx, id, id, nil); err != nil || j.State != store.Ready || has(c, c.changed, id) != store.MadeDue {
			c.Errorf("run %s: %+v, %v, in the journal %q", id, j, err, has(c, c.changed, id))
		}
	})
	if err := c.q.Delete(c.ctx, id, id, nil); err != nil {
		c.Fatal(err)
	}
}

func cutRedrive(c *cutting, topic string) {
	c.dead(topic, 10)
	c.cut(topic, func() {
		_, err := c.q.EndDead(c.ctx, store.DeadCall{Kind: store.Redriven, Topic: topic, Limit: 5})
		c.unavailable("redrive", topic, err)
	})
	if s := c.counts(topic); s.Dead != 5 || s.Ready != 5 {
		c.Errorf("of 10 dead jobs, a call for 5 re-drove others: %+v", s)
	}
	c.clear(topic)
}

func cutDeleteDead(c *cutting, topic string) {
	c.dead(topic, 10)
	c.cut(topic, func() {
		_, err := c.q.EndDead(c.ctx, store.DeadCall{Kind: store.DeadDeleted, Topic: topic, Limit: 5})
		c.unavailable("delete dead jobs of", topic, err)
	})
	if s := c.counts(topic); s.Dead != 5 || s.Ready != 0 {
		c.Errorf("of 10 dead jobs, a call for 5 deleted others: %+v", s)
	}
	c.clear(topic)
}

func (c *cutting) clear(topic string) {
	c.Helper()
	if _, err := c.q.DropTopic(c.ctx, topic); err != nil {
		c.Fatal(err)
	}
}

func cutReserve(c *cutting, topic string) {
	for i := range 4 {
		c.push(topic, fmt.Sprint(topic, "-", i), 0)
	}
	r := store.Reserve{Worker: "w", Token: topic, Max: 2, Pattern: "0102010201"}
	c.cut(topic, func() {
		_, err := c.s.BucketOf(topic).Reserve(c.ctx, r)
		c.unavailable("reserve", topic, err)
	})
	leases := c.reserveOf(topic, topic, 2, true)
	if s := c.counts(topic); len(leases) != 2 || s.Running != 2 || s.Ready != 2 {
		c.Errorf("%d leases, %+v; want 2 running and 2 ready jobs", len(leases), s)
	}
	for _, l := range leases {
		if l.Attempts != 0 {
			c.Errorf("%s has %d attempts", l.ID, l.Attempts)
		}
	}
	c.clear(topic)
}

func cutSettle(c *cutting, topic string) {
	c.push(topic, topic, 0)
	leases := c.reserveOf(topic, topic, 1, false)
	if len(leases) != 1 {
		c.Fatalf("%d leases", len(leases))
	}
	c.cut(topic, func() {
		st := []store.End{{Lease: leases[0].Lease, Verb: store.Retry, Delay: time.Hour, Attempt: &store.Attempt{StartedAt: 1}}}
		if _, err := c.s.BucketOf(topic).End(c.ctx, st); err != nil {
			c.Errorf("settle %s: %v", topic, err)
		}
	})
	if j := c.get(topic, topic); j.Attempts != 1 || j.State != store.Delayed || len(j.History) != 1 {
		c.Errorf("settled once, it has %d attempts, %d in its history, and is %s", j.Attempts, len(j.History), j.State)
	}
	c.clear(topic)
}

func cutTake(c *cutting, topic string) {
	c.pullTopics(topic)
	c.push(topic, topic, 0)
	c.cut(topic, func() {
		_, err := c.q.Take(c.ctx, store.TakeRequest{Topics: []string{topic}, Max: 1})
		c.unavailable("take", topic, err)
	})
	eventually(c.T, "the job is ready again", func() bool { return c.counts(topic).Ready == 1 })
	if j := c.get(topic, topic); j.Attempts != 0 {
		c.Errorf("%s has %d attempts", topic, j.Attempts)
	}
	c.clear(topic)
}

func cutEnd(c *cutting, topic string) {
	c.pullTopics(topic)
	for _, v := range []store.Verb{store.Fail, store.Done} {
		id := topic + string(v)
		c.push(topic, id, 0)
		jobs, err := c.q.Take(c.ctx, store.TakeRequest{Topics: []string{topic}, Max: 1})
		if err != nil || len(jobs) != 1 {
			c.Fatalf("took %d, %v", len(jobs), err)
		}
		c.cut(id, func() {
			c.unavailable(string(v), id, c.q.End(c.ctx, []store.End{{Lease: jobs[0].Lease, Verb: v}})[0].Err)
		})
		if v == store.Done {
			c.gone(topic, id)
			continue
		}
		if j := c.get(topic, id); j.Attempts != 1 || len(j.History) != 1 {
			c.Errorf("failed once, it has %d attempts, %d in its history", j.Attempts, len(j.History))
		}
	}
	c.clear(topic)
}
