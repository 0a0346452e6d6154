package server_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// fakeJobs is a queue in memory. It records its calls.
type fakeJobs struct {
	finds  int // calls of Find
	mu     sync.Mutex
	jobs   map[string]*store.Job
	done   []string // every call that could change jobs
	fail   error    // error of every call, if set
	down   []string // shards
	failID string   // only for this id, if set
	drops  int      // calls of DropTopic until one fails with fail; 0: all do
	last   store.Push
	change store.Change

	standing observe.Standing
	hold     chan struct{} // pushes wait for it, if set
	holding  chan struct{} // ticks when a push waits, and when one is canceled
}

func newFakeJobs() *fakeJobs { return &fakeJobs{jobs: map[string]*store.Job{}} }

func (f *fakeJobs) did(format string, args ...any) {
	f.done = append(f.done, fmt.Sprintf(format, args...))
}

func (f *fakeJobs) changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.done)
}

func (f *fakeJobs) broken(id string) error {
	if f.failID != "" && f.failID != id {
		return nil
	}
	return f.fail
}

func (f *fakeJobs) Push(ctx context.Context, p store.Push) store.Result {
	if f.hold != nil {
		f.holding <- struct{}{}
		select {
		case <-f.hold:
		case <-ctx.Done():
			f.holding <- struct{}{}
		}
	}
	return f.PushBatch(ctx, []store.Push{p})[0]
}

func (f *fakeJobs) PushBatch(_ context.Context, pushes []store.Push) []store.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	results := make([]store.Result, len(pushes))
	for i := range pushes {
		results[i] = f.push(pushes[i])
	}
	return results
}

func (f *fakeJobs) push(p store.Push) store.Result {
	if err := f.broken(p.ID); err != nil {
		return store.Result{Err: err}
	}
	key := p.Topic + "/" + p.ID
	old := f.jobs[key]
	if old != nil && p.OnDuplicate == store.Keep {
		return store.Result{Job: *old, Duplicate: true}
	}
	if old != nil && p.OnDuplicate == store.Refuse {
		return store.Result{Job: *old, Err: fmt.Errorf("push: %w", store.ErrDuplicate)}
	}
	p.Body = bytes.Clone(p.Body)
	f.last = p
	f.did("push %s", key)
	now := time.Now()
	due := p.DueAt
	if due.IsZero() {
		due = now.Add(p.Delay)
	}
	job := &store.Job{
		Topic: p.Topic, ID: p.ID, State: store.Delayed, Body: p.Body, ContentType: p.ContentType, Priority: p.Priority,
		TTR: p.TTR, MaxAttempts: p.MaxAttempts, CreatedAt: now, DueAt: due, NextAt: due, Group: p.Group,
		URL: p.URL, ETag: "e", Headers: p.Headers, Retry: p.Retry,
	}
	if !due.After(now) {
		job.State, job.NextAt = store.Ready, time.Time{}
	}
	f.jobs[key] = job
	return store.Result{Job: *job, Duplicate: old != nil}
}

func (f *fakeJobs) find(topic, id string) (*store.Job, error) {
	if err := f.broken(id); err != nil {
		return nil, err
	}
	job := f.jobs[topic+"/"+id]
	if job == nil {
		return nil, fmt.Errorf("%s/%s: %w", topic, id, store.ErrNotFound)
	}
	job.ETag = cmp.Or(job.ETag, "e")
	return job, nil
}

func (f *fakeJobs) Get(_ context.Context, topic, id string, _ ...store.State) (*store.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.find(topic, id)
}

func (f *fakeJobs) Change(_ context.Context, topic, id string, c store.Change) (*store.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	job, err := f.find(topic, id)
	switch {
	case err != nil:
		return nil, err
	case job.State == store.Running:
		return nil, fmt.Errorf("change: %w", store.ErrRunning)
	case job.State == store.Dead:
		return nil, fmt.Errorf("change: %w", store.ErrDead)
	}
	if err := changed(job, c.Match); err != nil {
		return nil, err
	}
	f.did("change %s/%s", topic, id)
	job.ETag += "x"
	f.change = c
	if c.DueAt != nil {
		job.DueAt = *c.DueAt
	}
	if c.Delay != nil {
		job.DueAt = time.Now().Add(*c.Delay)
	}
	if c.Priority != nil {
		job.Priority = *c.Priority
	}
	if c.URL != nil {
		job.URL = *c.URL
	}
	if c.Body != nil {
		job.Body = bytes.Clone(*c.Body)
	}
	return job, nil
}

func changed(job *store.Job, m store.Match) error {
	if m != nil && !slices.Contains(m, job.ETag) {
		return fmt.Errorf("%s: %w", job.ID, store.ErrChanged)
	}
	return nil
}

func (f *fakeJobs) Delete(ctx context.Context, topic, id string, m store.Match) error {
	if f.hold != nil {
		f.holding <- struct{}{}
		<-f.hold
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	job, err := f.find(topic, id)
	if err != nil {
		return err
	}
	if err := changed(job, m); err != nil {
		return err
	}
	f.did("delete %s/%s", topic, id)
	delete(f.jobs, topic+"/"+id)
	return nil
}

func (f *fakeJobs) RunNow(_ context.Context, topic, id string, m store.Match) (*store.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	job, err := f.find(topic, id)
	if err != nil {
		return nil, err
	}
	if err := changed(job, m); err != nil {
		return nil, err
	}
	f.did("run %s/%s", topic, id)
	job.State = store.Ready
	return job, nil
}

func (f *fakeJobs) Resend(_ context.Context, topic, id string) (*store.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	job, err := f.find(topic, id)
	switch {
	case err != nil:
		return nil, err
	case job.State != store.Finished:
		return nil, fmt.Errorf("resend: %w", store.ErrAlive)
	case job.BodyGone:
		return nil, fmt.Errorf("resend: %w", store.ErrBodyGone)
	}
	f.did("resend %s/%s", topic, id)
	job.State = store.Ready
	return job, nil
}

func (f *fakeJobs) ListFinished(
	_ context.Context, topic, prefix, _ string, _ int,
) ([]store.Job, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	jobs := []store.Job{}
	for _, j := range f.of(topic, store.Finished) {
		if strings.HasPrefix(j.ID, prefix) {
			jobs = append(jobs, *j)
		}
	}
	return jobs, "", nil
}

func (f *fakeJobs) of(topic string, s store.State) []*store.Job {
	var list []*store.Job
	for _, j := range f.jobs {
		if j.Topic == topic && j.State == s {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *store.Job) int { return strings.Compare(a.ID, b.ID) })
	return list
}

func (f *fakeJobs) List(
	_ context.Context, topic string, s store.State, cursor string, limit int,
) (jobs []store.Job, next string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, "", f.fail
	}
	if strings.HasPrefix(cursor, "bad") {
		return nil, "", fmt.Errorf("cursor: %w", store.ErrCursor)
	}
	for _, j := range f.of(topic, s) {
		if j.ID <= cursor {
			continue
		}
		if len(jobs) == limit {
			return jobs, jobs[limit-1].ID, nil
		}
		jobs = append(jobs, *j)
	}
	return jobs, "", nil
}

func (f *fakeJobs) dead(op, topic string, ids []string, limit int, do func(*store.Job)) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, j := range f.of(topic, store.Dead) {
		if n < limit || slices.Contains(ids, j.ID) {
			f.did("%s %s/%s", op, topic, j.ID)
			do(j)
			n++
		}
	}
	return n, f.fail
}

func (f *fakeJobs) EndDead(_ context.Context, c store.DeadCall) (int, error) {
	if c.Kind == store.Redriven {
		return f.dead("redrive", c.Topic, c.IDs, c.Limit, func(j *store.Job) { j.State, j.Attempts = store.Ready, 0 })
	}
	return f.dead("delete", c.Topic, c.IDs, c.Limit, func(j *store.Job) { delete(f.jobs, j.Topic+"/"+j.ID) })
}

func (f *fakeJobs) Stats(_ context.Context, topics []string) (map[string]store.Stats, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]store.Stats{}
	for _, t := range topics {
		count := func(s store.State) int64 { return int64(len(f.of(t, s))) }
		all[t] = store.Stats{
			Delayed: count(store.Delayed), Ready: count(store.Ready), Running: count(store.Running),
			Dead:        count(store.Dead),
			OldestReady: 1500 * time.Millisecond,
		}
	}
	return all, f.fail
}

func (f *fakeJobs) DropTopic(_ context.Context, topic string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for key, j := range f.jobs {
		if j.Topic == topic {
			delete(f.jobs, key)
			n++
		}
	}
	f.did("drop %s %d", topic, n)
	if f.drops > 1 {
		f.drops--
		return n, nil
	}
	return n, f.fail
}

func (f *fakeJobs) Health(context.Context) []store.ShardHealth {
	return []store.ShardHealth{
		{Name: "one", State: "active", Up: true, Latency: 400 * time.Microsecond, Memory: 1 << 20, Jobs: 7},
		{Name: "two", State: "draining", Latency: 110 * time.Microsecond, Err: "connection refused"},
	}
}

func (f *fakeJobs) Ready() error { return f.fail }

func (f *fakeJobs) Find(_ context.Context, refs []store.Ref) (found []*store.Job, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finds++
	for _, r := range refs {
		job := f.jobs[r.Topic+"/"+r.ID]
		if job != nil {
			job.ETag = cmp.Or(job.ETag, "e")
		}
		found = append(found, job)
	}
	return found, f.fail
}

func (f *fakeJobs) DownFor(string, string) []string { return f.down }

func (f *fakeJobs) Standing(context.Context, *store.Job) (observe.Standing, bool, error) {
	return f.standing, true, nil
}

func (f *fakeJobs) Workers(context.Context, string) (queue.Workers, error) {
	return queue.Workers{}, nil
}
