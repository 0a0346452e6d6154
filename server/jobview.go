package server

import (
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// instant is a time in the API's format.
type instant time.Time

// AppendText writes RFC 3339 in UTC with milliseconds. It appends them itself, because AppendFormat is three times as
// fast without them.
func (i *instant) AppendText(b []byte) ([]byte, error) {
	t := time.Time(*i)
	b = t.UTC().AppendFormat(b, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-len("Z")], '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z'), nil
}

// IsZero implements omitzero.
func (i *instant) IsZero() bool { return time.Time(*i).IsZero() }

// jobView is the JSON of a job, without its history and body.
type jobView struct {
	Topic     string      `json:"topic"`
	ID        string      `json:"id"`
	State     store.State `json:"state"`
	DueAt     instant     `json:"due_at"`
	Priority  string      `json:"priority"`
	Attempts  int         `json:"attempts"`
	CreatedAt instant     `json:"created_at"`

	// Overrides of the topic's settings.
	TTR         registry.Duration   `json:"ttr,omitzero"`
	MaxAttempts int                 `json:"max_attempts,omitzero"`
	ExpiresAt   instant             `json:"expires_at,omitzero"`
	Headers     map[string]string   `json:"headers,omitzero"`
	Retry       []registry.Duration `json:"retry,omitzero"`
	Group       string              `json:"group,omitzero"`

	// Fields that depend on its state.
	NextAttemptAt instant `json:"next_attempt_at,omitzero"`
	LeaseUntil    instant `json:"lease_until,omitzero"`
	DeadReason    string  `json:"dead_reason,omitzero"`
	DeadAt        instant `json:"dead_at,omitzero"`
	FinishedAt    instant `json:"finished_at,omitzero"`
	LateMS        *int64  `json:"late_ms,omitzero"`

	Duplicate bool `json:"duplicate,omitzero"` // in the answer to a push
}

func viewOfJob(j *store.Job) *jobView {
	v := &jobView{
		Topic: j.Topic, ID: j.ID, State: j.State, DueAt: instant(j.DueAt), Priority: j.Priority.String(),
		Attempts: j.Attempts, CreatedAt: instant(j.CreatedAt),
		TTR: registry.Duration(j.TTR), MaxAttempts: j.MaxAttempts, ExpiresAt: instant(j.ExpiresAt), Headers: j.Headers,
		Group: j.Group,
	}
	for _, wait := range j.Retry {
		v.Retry = append(v.Retry, registry.Duration(wait))
	}
	switch {
	case j.State == store.Delayed && !j.NextAt.Equal(j.DueAt):
		v.NextAttemptAt = instant(j.NextAt)
	case j.State == store.Running:
		v.LeaseUntil = instant(j.LeaseUntil)
	case j.State == store.Dead:
		v.DeadReason, v.DeadAt = j.DeadReason, instant(j.DeadAt)
	case j.State == store.Finished:
		late := j.Late().Milliseconds()
		v.FinishedAt, v.LateMS = instant(j.FinishedAt), &late
	}
	return v
}

func viewOfPushed(r *store.Result) *jobView {
	v := viewOfJob(&r.Job)
	v.Duplicate = r.Duplicate
	return v
}
