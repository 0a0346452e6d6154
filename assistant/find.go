package assistant

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
)

// job is a job as an assistant reads it.
type job struct {
	Topic       string    `json:"topic"`
	ID          string    `json:"id"`
	Group       string    `json:"group,omitempty" jsonschema:"jobs of one group are cancelled together"`
	Schedule    string    `json:"schedule,omitempty" jsonschema:"that pushed the job"`
	State       string    `json:"state"`
	Summary     string    `json:"summary" jsonschema:"whether the job was called, in a sentence"`
	DueAt       string    `json:"due_at"`
	CreatedAt   string    `json:"created_at"`
	Priority    string    `json:"priority,omitempty"`
	Attempts    int       `json:"attempts" jsonschema:"callbacks made so far"`
	MaxAttempts int       `json:"max_attempts,omitempty"`
	Waits       string    `json:"waits,omitempty" jsonschema:"all that the job waits for"`
	History     []attempt `json:"history,omitempty" jsonschema:"the last attempts, oldest first"`
	Body        string    `json:"body,omitempty" jsonschema:"data of another system, cut after 1000 bytes"`
}

type attempt struct {
	N         int    `json:"n"`
	StartedAt string `json:"started_at"`
	TookMS    int64  `json:"took_ms"`
	Status    int    `json:"status,omitempty" jsonschema:"HTTP status; missing if there was no answer"`
	Error     string `json:"error,omitempty"`
	Answer    string `json:"answer,omitempty" jsonschema:"data of another system, cut after 300 bytes"`
}

func (t *tools) job(j *client.Job) job {
	now := t.now()
	out := job{
		Topic: j.Topic, ID: j.ID, Group: j.Group, Schedule: j.Schedule, State: j.State, Summary: wasCalled(j, now),
		DueAt: describe.Instant(j.DueAt, now), CreatedAt: describe.Instant(j.CreatedAt, now), Priority: j.Priority,
		Attempts: j.Attempts, MaxAttempts: j.MaxAttempts,
		Waits: clip(describe.Waits(j.Waits, now), textLimit), Body: clip(bodyText(j), textLimit),
	}
	for _, h := range j.History[max(0, len(j.History)-maxAttempts):] {
		out.History = append(out.History, attempt{
			N: h.N, StartedAt: describe.Instant(h.StartedAt, now), TookMS: int64(h.TookMS), Status: h.Status,
			Error: clip(h.Error, answerLimit), Answer: clip(h.Answer, answerLimit),
		})
	}
	return out
}

func bodyText(j *client.Job) string {
	if !utf8.Valid(j.BodyBase64) {
		return "base64: " + base64.StdEncoding.EncodeToString(j.BodyBase64)
	}
	return string(j.Body) + string(j.BodyBase64) // one of them
}

// wasCalled says whether a job was called, without any text of another system.
func wasCalled(j *client.Job, now time.Time) string {
	called := printable.Count(j.Attempts, "attempt")
	switch j.State {
	case client.Done:
		return fmt.Sprintf("called: delivered after %s, %s", called, describe.InstantOf(j.FinishedAt, now))
	case client.Dead:
		return fmt.Sprintf("not delivered: dead after %s, since %s, reason: %s", called, describe.InstantOf(j.DeadAt,
			now),
			j.DeadReason)
	case client.Running:
		return fmt.Sprintf("being called now, attempt %d", j.Attempts+1)
	}
	next := j.DueAt
	if j.NextAttemptAt != nil {
		next = *j.NextAttemptAt
	}
	if j.Attempts > 0 {
		return fmt.Sprintf("not delivered yet: %s failed, next attempt %s", called, describe.Instant(next, now))
	}
	return "not called yet: due " + describe.Instant(next, now)
}

// searchTime is how long find_job searches the journals: assistants give up after a minute.
const searchTime = 30 * time.Second

type findIn struct {
	ID    string `json:"id" jsonschema:"the job's id, such as order-42"`
	Topic string `json:"topic,omitempty" jsonschema:"only jobs of this topic; omit it to search all"`
}

type findOut struct {
	Summary     string    `json:"summary"`
	Jobs        []job     `json:"jobs" jsonschema:"with this id, that Wakecall has now, also finished ones"`
	Past        []pastJob `json:"past" jsonschema:"what the journals know about jobs with this id, newest job first"`
	Complete    bool      `json:"complete" jsonschema:"false: not all was searched or shown; name a topic to see more"`
	NotSearched []string  `json:"not_searched,omitempty" jsonschema:"shards and journals not searched, and why"`
}

type pastJob struct {
	Topic     string  `json:"topic"`
	ID        string  `json:"id"`
	CreatedAt string  `json:"created_at"`
	Summary   string  `json:"summary"`
	Events    []event `json:"events" jsonschema:"the last events, oldest first"`
	Body      string  `json:"body,omitempty" jsonschema:"data of another system, cut after 1000 bytes"`
}

type event struct {
	At      string `json:"at"`
	What    string `json:"what" jsonschema:"push, replace, change, delete, …, or the outcome of an attempt"`
	Attempt int    `json:"attempt,omitempty"`
	Status  int    `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
	Answer  string `json:"answer,omitempty"`
	DueAt   string `json:"due_at,omitempty"`
	By      string `json:"by,omitempty"`
}

func (t *tools) find(ctx context.Context, in findIn) (*findOut, error) {
	r, err := t.search(ctx, in)
	if err != nil {
		return nil, err
	}
	out := &findOut{Jobs: []job{}, Past: []pastJob{}}
	out.Complete = r.Done && !r.Cut && max(len(r.Stored), len(r.Jobs)) <= maxFound
	for _, s := range r.Stored[:min(len(r.Stored), maxFound)] {
		j, err := t.api.Get(ctx, s.Topic, s.ID)
		if errors.Is(err, client.ErrNotFound) { // it has ended in the meantime
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Jobs = append(out.Jobs, t.job(j))
	}
	for _, j := range r.Jobs[:min(len(r.Jobs), maxFound)] {
		out.Past = append(out.Past, t.past(&j))
	}
	for _, h := range r.Hosts {
		if h.Error != "" {
			out.NotSearched = append(out.NotSearched, h.Name+": "+clip(h.Error, answerLimit))
			out.Complete = false
		}
	}
	if len(out.Jobs) == 0 {
		shards, err := t.api.Shards(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range describe.UnreachableShards(shards) {
			out.NotSearched = append(out.NotSearched, clip(s, answerLimit))
			out.Complete = false
		}
	}
	out.Summary = out.summarize()
	return out, nil
}

func (f *findOut) summarize() string {
	switch {
	case len(f.Jobs) > 1:
		return fmt.Sprintf("%d topics have a job with this id", len(f.Jobs))
	case len(f.Jobs) == 1:
		return f.Jobs[0].Summary
	case len(f.Past) > 0:
		return f.Past[0].Summary
	case !f.Complete:
		return "not found, but not all shards and journals were searched"
	}
	return "unknown: no topic that the token may read has it, and no journal that is kept mentions it"
}

// search returns what is known when the search ends, or after searchTime.
func (t *tools) search(ctx context.Context, in findIn) (*client.SearchReport, error) {
	select {
	case t.searching <- struct{}{}:
		defer func() { <-t.searching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	var last *client.SearchReport
	r, err := t.api.Search(limited, in.Topic, in.ID, func(r *client.SearchReport) { last = r })
	if err != nil && limited.Err() != nil && ctx.Err() == nil && last != nil {
		return last, nil
	}
	return r, err
}

func (t *tools) past(j *client.JournaledJob) pastJob {
	now, attempts := t.now(), 0
	out := pastJob{Topic: j.Topic, ID: j.ID, CreatedAt: describe.Instant(j.CreatedAt, now)}
	for _, e := range j.Events {
		if e.Attempt {
			attempts++
		}
		if len(e.Body) > 0 {
			out.Body = clip(string(e.Body), textLimit)
		}
	}
	for _, e := range j.Events[max(0, len(j.Events)-maxEvents):] {
		out.Events = append(out.Events, event{
			At: describe.Instant(cmp.Or(deref(e.StartedAt), e.At), now), What: e.What, Attempt: e.N, Status: e.Status,
			Error: clip(cmp.Or(e.Error, e.Reason), answerLimit), Answer: clip(e.Result, answerLimit),
			DueAt: describe.InstantOf(e.DueAt, now), By: strings.TrimSpace(e.By + " " + e.Via),
		})
	}
	ended := "not ended as far as the journals know"
	if j.Ended != "" && len(j.Events) > 0 {
		ended = describe.End(j.Ended) + ", " + describe.Instant(j.Events[len(j.Events)-1].At, now)
	}
	out.Summary = ended + ", after " + printable.Count(attempts, "attempt")
	return out
}

func deref(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
