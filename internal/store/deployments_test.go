package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/redistest"
)

// Jobs have the same life cycle on every kind of deployment.
func TestEveryKindOfDeploymentDoesTheSame(t *testing.T) {
	for kind, start := range redistest.Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			q := open(store.Options{})
			defer func() { _ = q.Close() }()
			if err := q.Shards.Set([]store.ShardConfig{{Name: "a", URL: d.URLs[0], State: "active"}}); err != nil {
				t.Fatal(err)
			}
			s := q.Shards.All()[0]
			eventually(t, "the shard is adopted", func() bool { return adoptAll(t.Context(), s) == nil })
			eventually(t, "a push is accepted", func() bool {
				return q.Push(t.Context(), store.Push{Topic: "first", ID: "x", OnDuplicate: store.Replace}).Err == nil
			})
			// the nodes of a new Cluster become ready one after the other
			eventually(t, "every bucket answers", func() bool {
				for b := range s.Buckets() {
					if _, err := s.Buckets()[b].Advance(t.Context()); err != nil {
						return false
					}
				}
				return true
			})
			liveAndDie(t, q, s)
			workersGetWhatIsListedFirst(t, q)
			if h := s.Health(t.Context()); !h.Up || h.Jobs != 0 || h.Version == "" {
				t.Fatalf("health = %+v", h)
			}
		})
	}
}

func liveAndDie(t *testing.T, q *queue.Queue, s *store.Shard) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wake := s.Buckets()[0].Wakeups(ctx)
	if w := <-wake; w.Kind != store.WakeReconnect {
		t.Fatalf("first wake-up %+v", w)
	}
	var batch []store.Push
	for i := range 300 {
		batch = append(batch, store.Push{Topic: fmt.Sprint("t", i%20), ID: fmt.Sprint(i),
			Delay: time.Duration(i%2) * 30 * time.Millisecond})
	}
	for _, r := range q.PushBatch(ctx, batch) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	jobsWithoutIDsAreFound(t, q)
	seen := map[string]bool{"first/x": false}
	round := 0
	eventually(t, "all jobs are called", func() bool {
		for b := range s.Buckets() {
			if _, err := s.Buckets()[b].Advance(ctx); err != nil {
				t.Fatal(err)
			}
			round++
			got, err := s.Buckets()[b].Reserve(ctx, store.Reserve{Worker: "w", Token: fmt.Sprint(round), Max: 100,
				Pattern: "0102010201"})
			if err != nil {
				t.Fatal(err)
			}
			var st []store.End
			for _, l := range got.Jobs {
				seen[l.Topic+"/"+l.ID] = true
				st = append(st, store.End{Lease: l.Lease, Verb: store.Done, Endpoint: store.EndpointUp})
			}
			if _, err := s.Buckets()[b].End(ctx, st); err != nil {
				t.Fatal(err)
			}
		}
		return len(seen) == 301 && seen["first/x"]
	})
}

// workersGetWhatIsListedFirst checks the order of topics that are in every bucket.
func workersGetWhatIsListedFirst(t *testing.T, q *queue.Queue) {
	var confs []store.TopicConf
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprint("pulled", i))
		confs = append(confs, store.TopicConf{Name: names[i], TTR: time.Minute, Pull: true})
	}
	if err := q.SetTopics(t.Context(), slices.Values(confs)); err != nil {
		t.Fatal(err)
	}
	for _, topic := range names {
		if r := q.Push(t.Context(), store.Push{Topic: topic, ID: "x"}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for i := range names {
		jobs, err := q.Take(t.Context(), store.TakeRequest{Topics: names, Order: store.Listed, Max: 1})
		if err != nil || len(jobs) != 1 || jobs[0].Topic != names[i] {
			t.Fatalf("of the topics from %s on: %+v, %v", names[i], jobs, err)
		}
		if d := q.End(t.Context(), []store.End{{Lease: jobs[0].Lease, Verb: store.Done}})[0]; d.Err != nil {
			t.Fatal(d.Err)
		}
	}
}

// jobsWithoutIDsAreFound checks jobs without ids in many topics, and so in every bucket.
func jobsWithoutIDsAreFound(t *testing.T, q *queue.Queue) {
	var batch []store.Push
	for i := range 60 {
		batch = append(batch, made(fmt.Sprint("made", i%20), time.Hour))
	}
	for i, r := range q.PushBatch(t.Context(), batch) {
		topic, id := batch[i].Topic, r.Job.ID
		if r.Err != nil || id != batch[i].ID {
			t.Fatalf("%+v", r)
		}
		if j, err := q.Get(t.Context(), topic, id); err != nil || j.ID != id || j.Topic != topic {
			t.Fatalf("get %s/%s: %+v, %v", topic, id, j, err)
		}
		if i%3 == 0 {
			body := []byte("changed")
			if j, err := q.Change(t.Context(), topic, id, store.Change{Body: &body}); err != nil || j.ID != id {
				t.Fatalf("change %s/%s: %+v, %v", topic, id, j, err)
			}
		}
		if err := q.Delete(t.Context(), topic, id, nil); err != nil {
			t.Fatalf("delete %s/%s: %v", topic, id, err)
		}
	}
}
