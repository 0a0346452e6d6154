package bulk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Filter selects jobs. What counts, shows, and acts on jobs uses the same filter, so that all do it to the same jobs.
// Text is compared case-insensitively.
type Filter struct {
	Topic  string      `json:"topic,omitempty"` // a name or a pattern such as shop.*; empty: all topics
	State  store.State `json:"state,omitempty"`
	ID     string      `json:"id,omitempty"`     // the id contains it or, after a ^, begins with it
	Error  string      `json:"error,omitempty"`  // the last error contains it
	Status int         `json:"status,omitempty"` // of the last answer
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

// covers reports whether a filter's topic includes another one, or all that match another pattern.
func covers(topic, other string) bool { return topic == "" || registry.MatchesPattern(topic, other) }

// Covers reports whether the filter's topic includes another one, or all topics of a namespace.
func (f Filter) Covers(topic string) bool { return covers(f.Topic, topic) }

// Topics returns, by name, the topics and namespaces that may have jobs that the filter selects.
func (f Filter) Topics(s *registry.Snapshot) (names []string) {
	begin, pattern := strings.CutSuffix(f.Topic, "*")
	if f.Topic != "" && !pattern {
		if s.Topic(f.Topic) == nil {
			return nil
		}
		return []string{f.Topic}
	}
	for _, name := range s.Topics.Names() {
		if f.Covers(name) || registry.IsNamespace(name) && covers(name, begin) {
			names = append(names, name)
		}
	}
	return names
}

// Lister lists the jobs of a topic, or of all topics of a namespace.
type Lister interface {
	List(ctx context.Context, topic string, s store.State, cursor string, limit int) ([]store.Job, string, error)
}

// List lists the selected ones of the next jobs, up to limit, of one of the filter's Topics. Among those of a namespace
// the queue also lists topics with settings of their own; List leaves them out, because Topics has them.
func (f Filter) List(
	ctx context.Context, q Lister, s *registry.Snapshot, topic, cursor string, limit int,
) (jobs []store.Job, next string, err error) {
	jobs, next, err = q.List(ctx, topic, f.State, cursor, limit)
	return slices.DeleteFunc(jobs, func(j store.Job) bool {
		t := s.TopicOrNamespace(j.Topic)
		return !f.Match(&j) || j.Topic != topic && t != nil && t.Name != topic
	}), next, err
}

const pageReads = 100 // calls to the queue for a page

// Page lists up to limit selected jobs of the filter's topic. In a long list it returns fewer, and a cursor.
func (f Filter) Page(
	ctx context.Context, q Lister, cursor string, limit int,
) (list []store.Job, next string, err error) {
	list = []store.Job{}
	for range pageReads {
		jobs, next, err := q.List(ctx, f.Topic, f.State, cursor, limit-len(list))
		if err != nil {
			return nil, "", err
		}
		for i := range jobs {
			if f.Match(&jobs[i]) {
				list = append(list, jobs[i])
			}
		}
		if cursor = next; cursor == "" || len(list) == limit {
			break
		}
	}
	return list, cursor, nil
}

// Select returns the ids of the first selected jobs of the filter's topic, by topic, and their number, up to limit.
func (f Filter) Select(ctx context.Context, q Lister, limit int) (ids map[string][]string, n int, err error) {
	ids = map[string][]string{}
	for cursor := ""; ; {
		jobs, next, err := f.Page(ctx, q, cursor, min(listPage, limit-n))
		if err != nil {
			return nil, 0, err
		}
		for i := range jobs {
			ids[jobs[i].Topic] = append(ids[jobs[i].Topic], jobs[i].ID)
		}
		n += len(jobs)
		if cursor = next; cursor == "" || n == limit {
			return ids, n, nil
		}
	}
}

// Match reports whether the filter selects a job.
func (f Filter) Match(j *store.Job) bool {
	at := timeOf(j)
	switch {
	case f.State != "" && j.State != f.State,
		!f.Covers(j.Topic),
		f.Status != 0 && f.Status != lastStatus(j),
		f.Reason != "" && j.DeadReason != f.Reason,
		!f.Since.IsZero() && at.Before(f.Since),
		!f.Until.IsZero() && !at.Before(f.Until):
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
func LastError(j *store.Job) string {
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

func lastStatus(j *store.Job) int {
	if len(j.History) == 0 {
		return 0
	}
	return j.History[len(j.History)-1].Status
}

// timeOf returns when a job is called next or, if it is dead, when it died.
func timeOf(j *store.Job) time.Time {
	if j.State == store.Dead {
		return j.DeadAt
	}
	return callTime(j)
}

// callTime returns when a job is called next. This may be later than its due time, which a retry does not change.
func callTime(j *store.Job) time.Time {
	if !j.NextAt.IsZero() {
		return j.NextAt
	}
	return j.DueAt
}
