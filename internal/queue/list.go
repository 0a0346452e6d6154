package queue

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// listStep bounds the jobs that one call of the list script reads.
const listStep = 100

var innerCursor = regexp.MustCompile(
	`^(|[drux][1-3]:[.0-9e+]{1,24}:[^\n]+|f\d{1,15}:\d{1,9}|o[.0-9e+]{1,24}:[^\n]+)$`,
)

// cursorsOf maps a state to the first letters of the list script's inner cursors. A cursor of another state would be
// misread and return a page of other jobs.
var cursorsOf = map[State]string{Delayed: "df", Ready: "r", Running: "u", Dead: "x", Finished: "o"}

// List returns up to limit jobs of a topic in a state, delayed ones roughly by time, dead ones by when they died, and
// the next cursor ("" at the end). Jobs of a namespace come topic by topic. Long bodies, and attempts but the last, are
// left out. Errors: ErrCursor, *UnavailableError; of a namespace *PartialError.
func (q *Queue) List(ctx context.Context, topic string, state State, cursor string, limit int) ([]Job, string, error) {
	if isNamespace(topic) {
		return q.listMembers(ctx, topic, state, cursor, limit)
	}
	return q.list(state, cursor, limit, math.MaxInt, func(s *Shard, inner string, limit int) ([]Job, string, error) {
		return s.listStep(ctx, topic, state, inner, limit, "")
	})
}

// listMembers lists the jobs of a namespace. Its cursor is the name of a topic and, after a space, the cursor in that
// topic.
func (q *Queue) listMembers(
	ctx context.Context, namespace string, state State, cursor string, limit int,
) ([]Job, string, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	first, inner, ok := strings.Cut(string(text), " ")
	if err != nil || cursor != "" && !ok {
		return nil, "", fmt.Errorf("cursor %.60q: %w", cursor, ErrCursor)
	}
	members, err := q.membersOf(ctx, namespace, state)
	if err != nil {
		return nil, "", err
	}
	jobs := []Job{}
	for _, topic := range members {
		if topic < first {
			continue
		}
		if topic != first {
			inner = ""
		}
		if len(jobs) == limit {
			return jobs, memberCursor(topic, ""), nil
		}
		found, next, err := q.List(ctx, topic, state, inner, limit-len(jobs))
		if err != nil {
			return nil, "", err
		}
		if jobs = append(jobs, found...); next != "" {
			return jobs, memberCursor(topic, next), nil
		}
	}
	return jobs, "", nil
}

func memberCursor(topic, inner string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(topic + " " + inner))
}

// list asks the shards in turn, with at most steps calls.
func (q *Queue) list(
	state State, cursor string, limit, steps int,
	step func(s *Shard, inner string, limit int) ([]Job, string, error),
) ([]Job, string, error) {
	name, inner, err := decodeCursor(state, cursor)
	if err != nil {
		return nil, "", err
	}
	jobs := []Job{}
	for _, s := range *q.shards.Load() {
		if s.name < name {
			continue
		}
		if s.name != name {
			inner = ""
		}
		for {
			found, next, err := step(s, inner, min(listStep, limit-len(jobs)))
			if err != nil {
				return nil, "", err
			}
			jobs = append(jobs, found...)
			if next == "" {
				break
			}
			inner = next
			if steps--; len(jobs) >= limit || steps <= 0 {
				return jobs, encodeCursor(s.name, inner), nil
			}
		}
		name = s.name
		if len(jobs) >= limit {
			return jobs, q.cursorBehind(s.name), nil
		}
	}
	return jobs, "", nil
}

// cursorBehind returns the cursor at the beginning of the shard after name, or "".
func (q *Queue) cursorBehind(name string) string {
	for _, s := range *q.shards.Load() {
		if s.name > name {
			return encodeCursor(s.name, "")
		}
	}
	return ""
}

func encodeCursor(shard, inner string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(shard + "\n" + inner))
}

func decodeCursor(state State, c string) (shard, inner string, err error) {
	if c == "" {
		return "", "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		return "", "", fmt.Errorf("cursor %.60q: %w", c, ErrCursor)
	}
	shard, inner, ok := strings.Cut(string(b), "\n")
	if !ok || !innerCursor.MatchString(inner) || inner != "" && !strings.Contains(cursorsOf[state], inner[:1]) {
		return "", "", fmt.Errorf("cursor %.60q: %w", c, ErrCursor)
	}
	return shard, inner, nil
}

// listStep calls the list script. prefix is the beginning of the ids of finished jobs.
func (s *Shard) listStep(
	ctx context.Context, topic string, state State, inner string, limit int, prefix string,
) (jobs []Job, next string, err error) {
	reply, err := s.CallList(ctx, s.bucketOf(topic), -1, listScript, topic, string(state), inner, limit, prefix)
	if err != nil {
		return nil, "", err
	}
	if len(reply) < 2 {
		return nil, "", fmt.Errorf("list %s: %w", topic, errReply)
	}
	next, _ = reply[1].(string)
	return s.listed(topic, state, reply[2:], micros(reply[0])), next, nil
}

// listed decodes descriptions of jobs, and leaves out those that are in another state.
func (s *Shard) listed(topic string, state State, descriptions []any, now time.Time) (jobs []Job) {
	for _, d := range descriptions {
		job, err := s.job(topic, d, now)
		if err != nil {
			s.log.Warn("a job cannot be listed", "topic", topic, "error", err)
			continue
		}
		job.History = job.History[max(0, len(job.History)-1):]
		if job.State == state { // it may have changed its state between two steps
			jobs = append(jobs, *job)
		}
	}
	return jobs
}

// first returns ready jobs of a topic with an order of its own, the first ones in that order.
func (s *Shard) first(ctx context.Context, topic string) ([]Job, error) {
	reply, err := s.CallList(ctx, s.bucketOf(topic), -1, firstScript, topic, listStep)
	if err != nil {
		return nil, err
	}
	if len(reply) == 0 {
		return nil, fmt.Errorf("list %s: %w", topic, errReply)
	}
	return s.listed(topic, Ready, reply[1:], micros(reply[0])), nil
}

// First returns ready jobs of a topic with an order of its own, from each shard the first ones in that order. Long
// bodies, and attempts but the last, are left out. Errors: *UnavailableError.
func (q *Queue) First(ctx context.Context, topic string) (jobs []Job, err error) {
	for _, s := range *q.shards.Load() {
		some, err := s.first(ctx, topic)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	return jobs, nil
}
