package wakecalltest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
)

// Fake is a client.Pusher that stores jobs in memory. It answers as a server does whose topics have no delay of their
// own, but calls nobody: a job stays as it is until it is changed or deleted. It is safe for concurrent use.
type Fake struct {
	mu       sync.Mutex
	topics   map[string]bool
	jobs     map[key]*client.Job
	closed   map[string]time.Time // groups, until when
	pushed   []client.Push
	revision int
	err      error
}

var _ client.Pusher = (*Fake)(nil)

type key struct{ topic, id string }

// NewFake returns a fake with these topics. A push to another one is refused, as by a server.
func NewFake(topics ...string) *Fake {
	f := &Fake{topics: map[string]bool{}, jobs: map[key]*client.Job{}, closed: map[string]time.Time{}}
	for _, name := range topics {
		f.topics[name] = true
	}
	return f
}

// FailWith makes every call return err, for example client.ErrUnreachable, and do nothing; nil ends that.
func (f *Fake) FailWith(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// Pushed returns the pushes that stored or replaced a job of a topic, oldest first, with their ids.
func (f *Fake) Pushed(topic string) (pushes []client.Push) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pushed {
		if p.Topic == topic {
			pushes = append(pushes, p)
		}
	}
	return pushes
}

// RequirePushed returns the only push to a topic. It fails the test if there were none or several.
func (f *Fake) RequirePushed(t testing.TB, topic string) client.Push {
	t.Helper()
	pushes := f.Pushed(topic)
	if len(pushes) != 1 {
		t.Fatalf("%d pushes to %s, want 1: %+v", len(pushes), topic, pushes)
	}
	return pushes[0]
}

// Push stores a job, as Client.Push does. With Wait it does not wait.
func (f *Fake) Push(ctx context.Context, topic string, p client.Push) (*client.Job, error) {
	p.Topic = topic
	if err := checkBody(p.Body); err != nil {
		return nil, err
	}
	return locked(ctx, f, func() (*client.Job, error) { return f.push(p) })
}

// PushBatch stores jobs, as Client.PushBatch does.
func (f *Fake) PushBatch(ctx context.Context, pushes []client.Push) ([]client.Result, error) {
	for i, p := range pushes {
		if err := checkBody(p.Body); err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
	}
	return locked(ctx, f, func() ([]client.Result, error) {
		results := make([]client.Result, len(pushes))
		for i, p := range pushes {
			job, err := f.push(p)
			if results[i] = (client.Result{Job: job, Err: err}); err == nil {
				job.ETag = ""
			}
		}
		return results, nil
	})
}

// Get returns a job, as Client.Get does.
func (f *Fake) Get(ctx context.Context, topic, id string) (*client.Job, error) {
	return locked(ctx, f, func() (*client.Job, error) {
		job, err := f.find(topic, id)
		if err != nil {
			return nil, err
		}
		whole := answer(job)
		whole.ContentType = "application/json"
		return whole, nil
	})
}

// Change edits a job, as Client.Change does.
func (f *Fake) Change(ctx context.Context, topic, id string, ch client.Change) (*client.Job, error) {
	if ch.Body != nil {
		if err := checkBody(ch.Body); err != nil {
			return nil, err
		}
	}
	return locked(ctx, f, func() (*client.Job, error) { return f.change(topic, id, ch) })
}

// Delete removes a job, as Client.Delete does.
func (f *Fake) Delete(ctx context.Context, topic, id string) error {
	_, err := locked(ctx, f, func() (*client.Job, error) {
		job, err := f.find(topic, id)
		delete(f.jobs, key{topic, id})
		return job, err
	})
	return err
}

// CancelGroup deletes the jobs of a group and closes it, as Client.CancelGroup does.
func (f *Fake) CancelGroup(ctx context.Context, name string, closeFor time.Duration) (*client.GroupCancelled, error) {
	return locked(ctx, f, func() (*client.GroupCancelled, error) {
		if closeFor != 0 && (closeFor < time.Second || closeFor > 30*24*time.Hour) {
			return nil, invalid(http.StatusUnprocessableEntity, "close must be 1s to 30 days")
		}
		if closeFor > 0 {
			f.closed[name] = time.Now().Add(closeFor)
		}
		done := &client.GroupCancelled{}
		for k, job := range f.jobs {
			if job.Group == name {
				delete(f.jobs, k)
				done.Deleted++
			}
		}
		return done, nil
	})
}

// locked calls do unless the context has ended or FailWith was called.
func locked[T any](ctx context.Context, f *Fake, do func() (T, error)) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := cmp.Or(ctx.Err(), f.err); err != nil {
		var none T
		return none, err
	}
	return do()
}

func (f *Fake) push(p client.Push) (*client.Job, error) {
	due, err := dueAt(p.Delay, p.DueAt, p.DueLocal, p.TimeZone)
	if err != nil {
		return nil, err
	}
	if !f.topics[p.Topic] {
		return nil, refusal(http.StatusNotFound, client.CodeTopicNotFound, fmt.Sprintf("no topic %q", p.Topic))
	}
	if p.Group != "" && time.Now().Before(f.closed[p.Group]) {
		return nil, refusal(http.StatusConflict, client.CodeGroupClosed, fmt.Sprintf("group %q is closed", p.Group))
	}
	p.ID = cmp.Or(p.ID, newID())
	old, exists := f.jobs[key{p.Topic, p.ID}]
	if exists && p.OnDuplicate == client.Refuse {
		return nil, refusal(http.StatusConflict, client.CodeJobExists, fmt.Sprintf("job %q exists", p.ID))
	}
	if exists && p.OnDuplicate != client.Replace {
		kept := answer(old)
		kept.Duplicate, kept.Body = true, nil
		return kept, nil
	}
	p.Body = bytes.Clone(p.Body)
	f.pushed = append(f.pushed, p)
	job := newJob(p, due)
	f.jobs[key{p.Topic, p.ID}] = job
	f.touch(job)
	stored := answer(job)
	stored.Duplicate, stored.Body = exists, nil
	return stored, nil
}

func newJob(p client.Push, due time.Time) *client.Job {
	now := time.Now().UTC().Truncate(time.Millisecond)
	job := &client.Job{
		Topic: p.Topic, ID: p.ID, Group: p.Group, Key: p.Key, URL: p.URL, DueAt: due, CreatedAt: now, Body: p.Body,
		Priority: cmp.Or(p.Priority, client.Normal), MaxAttempts: p.MaxAttempts, TTR: client.Duration(p.TTR),
		Headers: p.Headers, Traceparent: p.Traceparent,
	}
	for _, wait := range p.Retry {
		job.Retry = append(job.Retry, client.Duration(wait))
	}
	if expires := p.ExpiresAt; p.TTL > 0 || !expires.IsZero() {
		if p.TTL > 0 {
			expires = now.Add(p.TTL)
		}
		job.ExpiresAt = &expires
	}
	return job
}

func (f *Fake) change(topic, id string, ch client.Change) (*client.Job, error) {
	job, err := f.find(topic, id)
	if err != nil {
		return nil, err
	}
	if ch.ETag != "" && ch.ETag != job.ETag {
		return nil, refusal(http.StatusPreconditionFailed, client.CodeJobChanged, "the job was changed")
	}
	moved := ch.Delay != nil || ch.DueAt != nil || ch.DueLocal != ""
	if !moved && ch.Priority == "" && ch.URL == nil && ch.Body == nil {
		return nil, invalid(http.StatusBadRequest, "nothing to change")
	}
	if moved {
		var at time.Time
		if ch.DueAt != nil {
			at = *ch.DueAt
		}
		due, err := dueAt(ch.Delay, at, ch.DueLocal, ch.TimeZone)
		if err != nil {
			return nil, err
		}
		job.DueAt = due
	}
	job.Priority = cmp.Or(ch.Priority, job.Priority)
	if ch.URL != nil {
		job.URL = *ch.URL
	}
	if ch.Body != nil {
		job.Body = bytes.Clone(ch.Body)
	}
	f.touch(job)
	changed := answer(job)
	changed.Body = nil
	return changed, nil
}

func (f *Fake) find(topic, id string) (*client.Job, error) {
	if !f.topics[topic] {
		return nil, refusal(http.StatusNotFound, client.CodeTopicNotFound, fmt.Sprintf("no topic %q", topic))
	}
	if job := f.jobs[key{topic, id}]; job != nil {
		return job, nil
	}
	return nil, refusal(http.StatusNotFound, client.CodeJobNotFound, fmt.Sprintf("topic %s has no job %q", topic, id))
}

func (f *Fake) touch(job *client.Job) {
	f.revision++
	job.ETag = strconv.Itoa(f.revision)
}

// answer returns a copy of a job with its state.
func answer(job *client.Job) *client.Job {
	shown := *job
	shown.State = client.Delayed
	if !time.Now().Before(job.DueAt) {
		shown.State = client.Ready
	}
	return &shown
}

// dueAt returns when a job is due, rounded up to milliseconds; without any of the fields: now.
func dueAt(delay *time.Duration, at time.Time, local, zone string) (time.Time, error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	place, err := time.LoadLocation(zone)
	switch {
	case delay != nil && (!at.IsZero() || local != ""):
		return now, invalid(http.StatusBadRequest, "delay and due_at exclude each other")
	case delay != nil && *delay < 0:
		return now, invalid(http.StatusUnprocessableEntity, "delay must not be negative")
	case local != "" && (err != nil || zone == ""):
		return now, invalid(http.StatusUnprocessableEntity, "a local time needs an IANA time zone")
	case delay != nil:
		at = now.Add(*delay)
	case local != "":
		if at, err = time.ParseInLocation("2006-01-02T15:04:05", local, place); err != nil {
			return now, invalid(http.StatusBadRequest, err.Error())
		}
	case at.IsZero():
		return now, nil
	}
	return at.Add(time.Millisecond - 1).UTC().Truncate(time.Millisecond), nil
}

func checkBody(body json.RawMessage) error {
	if !json.Valid(body) {
		return errors.New("the body must be JSON")
	}
	return nil
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

func invalid(status int, detail string) error { return refusal(status, client.CodeInvalid, detail) }

func refusal(status int, code, detail string) error {
	return &client.Error{Status: status, Code: code, Title: http.StatusText(status), Detail: detail}
}
