package server

import (
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// jobView is the JSON of a job, without its history and body.
type jobView struct {
	Topic     string      `json:"topic"`
	ID        string      `json:"id"`
	State     store.State `json:"state"`
	DueAt     time.Time   `json:"due_at"`
	Priority  string      `json:"priority"`
	Attempts  int         `json:"attempts"`
	CreatedAt time.Time   `json:"created_at"`

	// Overrides of the topic's settings.
	TTR         registry.Duration   `json:"ttr,omitzero"`
	MaxAttempts int                 `json:"max_attempts,omitzero"`
	ExpiresAt   time.Time           `json:"expires_at,omitzero"`
	Headers     map[string]string   `json:"headers,omitzero"`
	Retry       []registry.Duration `json:"retry,omitzero"`
	Group       string              `json:"group,omitzero"`
	Traceparent string              `json:"traceparent,omitzero"`
	Key         string              `json:"key,omitzero"`
	URL         string              `json:"url,omitzero"`

	// Of an occurrence.
	Schedule     string    `json:"schedule,omitzero"`
	ScheduledFor time.Time `json:"scheduled_for,omitzero"`

	// Fields that depend on its state.
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	LeasedUntil   time.Time `json:"leased_until,omitzero"`
	DeadReason    string    `json:"dead_reason,omitzero"`
	DeadAt        time.Time `json:"dead_at,omitzero"`
	FinishedAt    time.Time `json:"finished_at,omitzero"`
	LateMS        *int64    `json:"late_ms,omitzero"`

	Duplicate bool `json:"duplicate,omitzero"` // in the answer to a push
}

func viewOfJob(j *store.Job) *jobView {
	v := &jobView{
		Topic: j.Topic, ID: j.ID, State: j.State, DueAt: j.DueAt, Priority: j.Priority.String(),
		Attempts: j.Attempts, CreatedAt: j.CreatedAt,
		TTR: registry.Duration(j.TTR), MaxAttempts: j.MaxAttempts, ExpiresAt: j.ExpiresAt, Headers: j.Headers,
		Group: j.Group, Key: j.Key, Traceparent: j.Traceparent, URL: j.URL, Schedule: j.Schedule,
		ScheduledFor: j.For,
	}
	for _, wait := range j.Retry {
		v.Retry = append(v.Retry, registry.Duration(wait))
	}
	switch {
	case j.State == store.Delayed && !j.NextAt.Equal(j.DueAt):
		v.NextAttemptAt = j.NextAt
	case j.State == store.Running:
		v.LeasedUntil = j.LeaseUntil
	case j.State == store.Dead:
		v.DeadReason, v.DeadAt = j.DeadReason, j.DeadAt
	case j.State == store.Finished:
		late := j.Late().Milliseconds()
		v.FinishedAt, v.LateMS = j.FinishedAt, &late
	}
	return v
}

func viewOfPushed(r *store.Result) *jobView {
	v := viewOfJob(&r.Job)
	v.Duplicate = r.Duplicate
	return v
}
