package bulk

import (
	"fmt"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Filter selects jobs. Text is compared case-insensitively.
type Filter struct {
	Topic  string      `json:"topic,omitempty"` // empty: all topics
	State  queue.State `json:"state,omitempty"`
	ID     string      `json:"id,omitempty"`     // the id contains it or, after a ^, begins with it
	Error  string      `json:"error,omitempty"`  // the last error contains it
	Text   string      `json:"text,omitempty"`   // the last error or the id contains it
	Reason string      `json:"reason,omitempty"` // why the job is dead
	Since  time.Time   `json:"since,omitzero"`   // the job's time is at or after this
	Until  time.Time   `json:"until,omitzero"`   // the job's time is before this
}

// Prefix returns the required prefix of ids. If it is empty, the text may be anywhere in the id.
func (f Filter) Prefix() string {
	if prefix, ok := strings.CutPrefix(f.ID, "^"); ok {
		return prefix
	}
	return ""
}

// Narrow reports whether the filter has conditions besides topic and state.
func (f Filter) Narrow() bool { return f != Filter{Topic: f.Topic, State: f.State} }

// overlaps reports whether jobs may match both filters.
func (f Filter) overlaps(o Filter) bool {
	return (covers(f.Topic, o.Topic) || covers(o.Topic, f.Topic)) &&
		(f.Reason == "" || o.Reason == "" || f.Reason == o.Reason)
}

// covers reports whether a filter's topic includes that of another filter. It may be a namespace; empty means all
// topics.
func covers(topic, other string) bool { return topic == "" || registry.MatchesPattern(topic, other) }

// Match reports whether the filter selects a job. It does not compare topics.
func (f Filter) Match(j *queue.Job) bool {
	at := timeOf(j)
	switch {
	case f.State != "" && j.State != f.State,
		f.Reason != "" && j.DeadReason != f.Reason,
		!f.Since.IsZero() && at.Before(f.Since),
		!f.Until.IsZero() && !at.Before(f.Until):
		return false
	}
	if f.Text != "" && !contains(LastError(j), f.Text) && !contains(j.ID, f.Text) {
		return false
	}
	if prefix := f.Prefix(); prefix != "" {
		return strings.HasPrefix(strings.ToLower(j.ID), strings.ToLower(prefix)) && contains(LastError(j), f.Error)
	}
	return contains(j.ID, strings.TrimPrefix(f.ID, "^")) && contains(LastError(j), f.Error)
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// LastError returns the outcome of the job's last attempt as text.
func LastError(j *queue.Job) string {
	if len(j.History) == 0 {
		return j.DeadReason
	}
	last := j.History[len(j.History)-1]
	if last.Error != "" {
		return last.Error
	}
	if last.Status > 0 {
		return fmt.Sprintf("HTTP %d", last.Status)
	}
	return j.DeadReason
}

// timeOf returns when a job is called next or, if it is dead, when it died.
func timeOf(j *queue.Job) time.Time {
	if j.State == queue.Dead {
		return j.DeadAt
	}
	return callTime(j)
}

// callTime returns when a job is called next. This may be later than its due time, which a retry does not change.
func callTime(j *queue.Job) time.Time {
	if !j.NextAt.IsZero() {
		return j.NextAt
	}
	return j.DueAt
}
