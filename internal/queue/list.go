package queue

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"strings"

	"github.com/wakecall/wakecall/internal/store"
)

// List returns up to limit jobs of a topic in a state, delayed ones roughly by time, dead ones by when they died, and
// the next cursor ("" at the end). Jobs of a namespace come topic by topic. Long bodies, and attempts but the last, are
// left out. Errors: ErrCursor, *UnavailableError; of a namespace *PartialError.
func (q *Queue) List(
	ctx context.Context, topic string, state store.State, cursor string, limit int,
) ([]store.Job, string, error) {
	if store.IsNamespace(topic) {
		return q.listMembers(ctx, topic, state, cursor, limit)
	}
	step := func(b *store.Bucket, inner string, limit int) ([]store.Job, string, error) {
		return b.List(ctx, topic, state, inner, limit, "")
	}
	return q.list(topic, state, cursor, limit, math.MaxInt, step)
}

// listMembers lists the jobs of a namespace. Its cursor is the name of a topic and, after a space, the cursor in that
// topic.
func (q *Queue) listMembers(
	ctx context.Context, namespace string, state store.State, cursor string, limit int,
) ([]store.Job, string, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	first, inner, ok := strings.Cut(string(text), " ")
	if err != nil || cursor != "" && !ok {
		return nil, "", fmt.Errorf("cursor %.60q: %w", cursor, store.ErrCursor)
	}
	members, err := q.membersOf(ctx, namespace, state)
	if err != nil {
		return nil, "", err
	}
	jobs := []store.Job{}
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
	topic string, state store.State, cursor string, limit, steps int,
	step func(b *store.Bucket, inner string, limit int) ([]store.Job, string, error),
) ([]store.Job, string, error) {
	name, inner, err := decodeCursor(state, cursor)
	if err != nil {
		return nil, "", err
	}
	jobs := []store.Job{}
	for _, s := range *q.Shards.all.Load() {
		if s.Name() < name {
			continue
		}
		if s.Name() != name {
			inner = ""
		}
		for {
			found, next, err := step(s.BucketOf(topic), inner, min(store.ListStep, limit-len(jobs)))
			if err != nil {
				return nil, "", err
			}
			jobs = append(jobs, found...)
			if next == "" {
				break
			}
			inner = next
			if steps--; len(jobs) >= limit || steps <= 0 {
				return jobs, encodeCursor(s.Name(), inner), nil
			}
		}
		name = s.Name()
		if len(jobs) >= limit {
			return jobs, q.cursorBehind(s.Name()), nil
		}
	}
	return jobs, "", nil
}

// cursorBehind returns the cursor at the beginning of the shard after name, or "".
func (q *Queue) cursorBehind(name string) string {
	for _, s := range *q.Shards.all.Load() {
		if s.Name() > name {
			return encodeCursor(s.Name(), "")
		}
	}
	return ""
}

func encodeCursor(shard, inner string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(shard + "\n" + inner))
}

func decodeCursor(state store.State, c string) (shard, inner string, err error) {
	if c == "" {
		return "", "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(c)
	if err != nil {
		return "", "", fmt.Errorf("cursor %.60q: %w", c, store.ErrCursor)
	}
	shard, inner, ok := strings.Cut(string(b), "\n")
	if !ok || !store.InnerCursor.MatchString(inner) ||
		inner != "" && !strings.Contains(store.CursorsOf[state], inner[:1]) {
		return "", "", fmt.Errorf("cursor %.60q: %w", c, store.ErrCursor)
	}
	return shard, inner, nil
}

// First returns ready jobs of a topic with an order of its own, from each shard the first ones in that order. Long
// bodies, and attempts but the last, are left out. Errors: *UnavailableError.
func (q *Queue) First(ctx context.Context, topic string) (jobs []store.Job, err error) {
	for _, s := range *q.Shards.all.Load() {
		some, err := s.BucketOf(topic).First(ctx, topic)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	return jobs, nil
}
