// Package waits says why a job is not being called. Of decides it, from data that others have: the topic's settings,
// the state of its limits and its breaker, the job's place in its queue, and the topic's workers.
package waits

import (
	"context"
	"errors"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Reason is what a job waits for.
type Reason string

// The reasons, in the order in which an answer lists them.
const (
	ShardDown   Reason = "shard_down"    // the shard that has the job, or may have it, does not answer
	Paused      Reason = "paused"        // its topic
	Offline     Reason = "offline"       // its topic
	Locked      Reason = "locked"        // this host cannot decrypt the topic's secrets
	NotDue      Reason = "not_due"       // the job
	Retry       Reason = "retry"         // the last attempt failed, and the next one is not due yet
	Breaker     Reason = "breaker_open"  // the endpoint does not answer
	MaxInFlight Reason = "max_in_flight" // the topic has as many calls in flight as it may
	RateLimit   Reason = "rate_limit"    // the topic has made as many calls as it may
	Window      Reason = "window"        // the endpoint has as many calls in flight as it could answer lately
	NoWorker    Reason = "no_worker"     // no worker waits for jobs of the pull topic
	Key         Reason = "key"           // others of its key run or come first
	Behind      Reason = "behind"        // other due jobs are taken first
	Next        Reason = "next"          // nothing: it is the next of its topic
)

// Wait is a reason with its details. Which fields are set depends on the reason.
type Wait struct {
	Reason   Reason    `json:"reason"`
	Until    time.Time `json:"until,omitzero"`    // not_due, retry, breaker_open, rate_limit: of the next call
	By       string    `json:"by,omitzero"`       // paused: who paused the topic
	Why      string    `json:"why,omitzero"`      // paused: the reason that was given
	Since    time.Time `json:"since,omitzero"`    // paused
	Limit    float64   `json:"limit,omitzero"`    // max_in_flight, rate_limit, window: the topic's or its endpoint's
	Running  int64     `json:"running,omitzero"`  // max_in_flight, window, no_worker: jobs of the topic
	Jobs     int64     `json:"jobs,omitzero"`     // behind
	Attempt  int       `json:"attempt,omitzero"`  // retry: the number of the failed attempt
	Failures int64     `json:"failures,omitzero"` // breaker_open: in a row
	Shard    string    `json:"shard,omitzero"`    // shard_down; max_in_flight, if it has only a share
	Error    string    `json:"error,omitzero"`    // shard_down, retry
}

// Facts are what is known about a job and its topic.
type Facts struct {
	Job      *store.Job
	Topic    *registry.Topic // nil: it has no settings
	Note     registry.TopicNote
	Standing *observe.Standing // nil: unknown
	Workers  *queue.Workers    // of a pull topic; nil: unknown
	Down     error             // the job's shard has stopped answering since the job was read
}

// Of returns all that a job waits for; none if it does not wait. What ends first by itself comes last: a job of a
// paused topic is not called when it falls due.
func Of(f Facts) []Wait {
	j := f.Job
	switch {
	case j.State == store.Spooled:
		return []Wait{{Reason: ShardDown}}
	case j.State != store.Delayed && j.State != store.Ready:
		return nil
	case f.Down != nil:
		return []Wait{{Reason: ShardDown, Shard: j.Shard, Error: f.Down.Error()}}
	}
	list := stopped(f)
	if j.State == store.Delayed {
		return append(list, notDue(j))
	}
	if f.Topic != nil && f.Standing != nil {
		list = append(list, limited(f)...)
		if f.Standing.Held {
			list = append(list, Wait{Reason: Key})
		}
		if f.Standing.Before > 0 {
			list = append(list, Wait{Reason: Behind, Jobs: f.Standing.Before})
		}
	}
	if len(list) == 0 {
		return []Wait{{Reason: Next}}
	}
	return list
}

// stopped returns why no job of the topic is called.
func stopped(f Facts) []Wait {
	switch t := f.Topic; {
	case t == nil:
		return nil
	case t.State == registry.TopicPaused:
		return []Wait{{Reason: Paused, By: f.Note.PausedBy, Why: f.Note.PauseReason, Since: f.Note.PausedAt,
			Until: f.Note.PausedUntil}}
	case t.State == registry.TopicOffline:
		return []Wait{{Reason: Offline}}
	case t.Locked:
		return []Wait{{Reason: Locked}}
	}
	return nil
}

func notDue(j *store.Job) Wait {
	if j.NextAt.Equal(j.DueAt) {
		return Wait{Reason: NotDue, Until: j.DueAt}
	}
	w := Wait{Reason: Retry, Until: j.NextAt, Attempt: j.Attempts}
	if n := len(j.History); n > 0 {
		w.Error = j.History[n-1].Error
	}
	return w
}

// limited returns what limits the calls of the topic now.
func limited(f Facts) (list []Wait) {
	t, s := f.Topic, f.Standing
	pull := t.Delivery == registry.DeliveryPull
	if pull && f.Workers != nil && f.Workers.Waiting == 0 {
		list = append(list, Wait{Reason: NoWorker, Running: s.Running})
	}
	if !pull && !s.BreakerOpen.IsZero() {
		list = append(list, Wait{Reason: Breaker, Until: s.BreakerOpen, Failures: s.Failures})
	}
	full := s.MaxInFlight > 0 && s.Running >= s.MaxInFlight
	if full {
		w := Wait{Reason: MaxInFlight, Limit: float64(s.MaxInFlight), Running: s.Running}
		if s.MaxInFlight != int64(t.MaxInFlight) {
			w.Shard = f.Job.Shard
		}
		list = append(list, w)
	}
	if !s.Paced.IsZero() {
		list = append(list, Wait{Reason: RateLimit, Limit: t.RateLimit, Until: s.Paced})
	}
	if !pull && !full && s.BreakerOpen.IsZero() && s.Running >= s.Window {
		list = append(list, Wait{Reason: Window, Limit: float64(s.Window), Running: s.Running})
	}
	return list
}

// Queue reads the facts that shards have.
type Queue interface {
	Standing(ctx context.Context, j *store.Job) (s observe.Standing, ok bool, err error)
	Workers(ctx context.Context, topic string) (queue.Workers, error)
}

// Find reads the facts about a job that was read, and returns all that it waits for. What cannot be read is left out.
func Find(ctx context.Context, q Queue, r *registry.Snapshot, j *store.Job) []Wait {
	f := Facts{Job: j, Topic: r.Topic(j.Topic)}
	if f.Topic != nil {
		f.Note = r.Notes.Get(f.Topic.Name)
	}
	if j.State != store.Ready {
		return Of(f)
	}
	s, ok, err := q.Standing(ctx, j)
	var un *store.UnavailableError
	switch {
	case errors.As(err, &un):
		f.Down = err
	case err == nil && !ok:
		return nil // it was taken meanwhile
	case err == nil:
		f.Standing = &s
	}
	if f.Topic != nil && f.Topic.Delivery == registry.DeliveryPull && f.Down == nil {
		if w, err := q.Workers(ctx, j.Topic); err == nil {
			f.Workers = &w
		}
	}
	return Of(f)
}
