package activity

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
)

// Source is the part of a queue.Queue that a Reader needs.
type Source interface {
	Attempts(ctx context.Context, topic string, limit int) ([][]byte, error)
	// Errors returns the kinds of errors of a topic in the last week, latest first.
	Errors(ctx context.Context, topic string) ([]observe.ErrorNote, error)
	ClearErrors(ctx context.Context, topic string) error
	LatenessCounts(ctx context.Context, topics []string, since time.Time) (map[string]map[int]int64, error)
	LatenessOfAll(ctx context.Context, since time.Time) (map[int]int64, error)
	// ReserveCounts counts the reserved jobs by priority (high, normal, low) since a time at most an hour ago.
	ReserveCounts(ctx context.Context, since time.Time) ([3]int64, error)
}

// Reader reads the notes of all hosts' recorders: attempts and latenesses in the types of this package, the rest in
// those of the Source. With an error for which queue.IsPartial is true, it returns the results of the shards that
// answered.
type Reader struct{ Source }

// NewReader returns a Reader.
func NewReader(s Source) *Reader { return &Reader{s} }

// Attempts returns the last attempts of a topic, newest first. Each shard keeps 100.
func (r *Reader) Attempts(ctx context.Context, topic string, limit int) ([]Attempt, error) {
	raw, err := r.Source.Attempts(ctx, topic, limit)
	list := make([]Attempt, 0, len(raw))
	for _, b := range raw {
		a := Attempt{Topic: topic}
		if json.Unmarshal(b, &a) == nil {
			list = append(list, a)
		}
	}
	list = inOrder(list)
	slices.Reverse(list)
	return list[:min(limit, len(list))], err
}

// Lateness returns how late the first calls of topics' jobs began since a time at most an hour ago.
func (r *Reader) Lateness(ctx context.Context, topics []string, since time.Time) (map[string]Histogram, error) {
	counts, err := r.LatenessCounts(ctx, topics, since)
	list := make(map[string]Histogram, len(counts))
	for topic, c := range counts {
		list[topic] = c
	}
	return list, err
}
