package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/wakecall/wakecall/internal/store"
)

// jobsByTopic is a queue that counts its lookups.
type jobsByTopic struct {
	topics   []string // topics that have the job
	finished string   // a topic that remembers it
	searches int
	err      error
}

func (q *jobsByTopic) Get(_ context.Context, topic, id string, _ ...store.State) (*store.Job, error) {
	if q.err != nil {
		return nil, q.err
	}
	if !slices.Contains(q.topics, topic) {
		return nil, fmt.Errorf("get %s/%s: %w", topic, id, store.ErrNotFound)
	}
	return &store.Job{Topic: topic, ID: id}, nil
}

func (q *jobsByTopic) Find(_ context.Context, refs []store.Ref) ([]*store.Job, error) {
	jobs := make([]*store.Job, len(refs))
	for i, r := range refs {
		switch {
		case slices.Contains(q.topics, r.Topic):
			jobs[i] = &store.Job{Topic: r.Topic, ID: r.ID}
		case r.Topic == q.finished:
			jobs[i] = &store.Job{Topic: r.Topic, ID: r.ID, State: store.Finished}
		}
	}
	return jobs, q.err
}

func (q *jobsByTopic) Members(context.Context, string) ([]string, error) {
	q.searches++
	return []string{"n.a", "n.b", "n.c"}, q.err
}

// TestAnIDIsLookedUpFirstWhereItWasLastSeen, because a search queries every shard for every topic.
func TestAnIDIsLookedUpFirstWhereItWasLastSeen(t *testing.T) {
	t.Parallel()
	q := &jobsByTopic{topics: []string{"n.b"}}
	f := NewFinder(q, "n.*")
	get := func(want string, searches int) {
		t.Helper()
		job, err := f.Get(t.Context(), "1")
		if err != nil {
			t.Fatal(err)
		}
		if got := ""; job == nil && got != want || job != nil && job.Topic != want || q.searches != searches {
			t.Errorf("found %+v after %d searches, want it in %q after %d", job, q.searches, want, searches)
		}
	}
	get("n.b", 1)
	f.Met("1", "n.b")
	get("n.b", 1)
	q.topics = []string{"n.c"} // another host has pushed it there
	get("n.c", 2)
	get("n.c", 3) // a wrong hint is dropped
	q.topics, q.finished = nil, "n.a"
	get("", 4)
}

// TestAFailedSearchKeepsTheHint: whether the job exists is unknown, and its hint is kept.
func TestAFailedSearchKeepsTheHint(t *testing.T) {
	t.Parallel()
	away := &store.UnavailableError{Reason: "down", Err: errors.New("connection refused")}
	q := &jobsByTopic{topics: []string{"n.b"}, err: away}
	f := NewFinder(q, "n.*")
	if job, err := f.Get(t.Context(), "1"); job != nil || !errors.Is(err, away) {
		t.Errorf("%+v, %v", job, err)
	}
	f.Met("1", "n.b")
	if job, err := f.Get(t.Context(), "1"); job != nil || !errors.Is(err, away) || q.searches != 1 {
		t.Errorf("with a hint: %+v, %v after %d searches", job, err, q.searches)
	}
	q.err = nil
	if job, err := f.Get(t.Context(), "1"); err != nil || job == nil || q.searches != 1 {
		t.Errorf("then %+v, %v after %d searches, want the hint to be used", job, err, q.searches)
	}
}

// TestTryStopsAtTheTopicThatHasTheJob, or at the first error.
func TestTryStopsAtTheTopicThatHasTheJob(t *testing.T) {
	t.Parallel()
	q := &jobsByTopic{topics: []string{"n.a", "n.b", "n.c"}}
	broken := errors.New("broken")
	for _, x := range []struct {
		found string
		err   error
		tried string
	}{{"n.b", nil, "[n.a n.b]"}, {"", nil, "[n.a n.b n.c]"}, {"", broken, "[n.a]"}} {
		var tried []string
		found, err := NewFinder(q, "n.*").Try(t.Context(), "1", func(topic string) (bool, error) {
			tried = append(tried, topic)
			return topic == x.found, x.err
		})
		if found != (x.found != "") || !errors.Is(err, x.err) || fmt.Sprint(tried) != x.tried {
			t.Errorf("found %t, %v, tried %v; want %+v", found, err, tried, x)
		}
	}
}
