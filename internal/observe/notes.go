//wakecall:figures
package observe

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Notes holds what a dispatcher stores about its callbacks, for people to read; no job depends on it.
type Notes struct {
	Reserved [3]int64 // jobs by priority
	Topics   []TopicNotes
}

// TopicNotes holds the notes about one topic.
type TopicNotes struct {
	Topic    string
	Attempts [][]byte // JSON, oldest first
	Errors   []ErrorNote
	Lateness map[int]int64 // calls by bucket of lateness
}

// ErrorNote is a kind of error.
type ErrorNote struct {
	Fingerprint string
	N           int64
	Example     string
	First, Last time.Time // when read
}

// noteTopics is the most topics in one call of the script.
const noteTopics = 50

// Note stores notes about the jobs of a bucket.
func Note(ctx context.Context, b *store.Bucket, n Notes) error {
	reserved := n.Reserved
	for some := range slices.Chunk(append(slices.Clip(n.Topics), n.all()), noteTopics) {
		args := []any{reserved[0], reserved[1], reserved[2]}
		reserved = [3]int64{}
		for i := range some {
			args = some[i].appendTo(args)
		}
		if _, err := b.Call(ctx, noteScript, args...); err != nil {
			return err
		}
	}
	return nil
}

// all returns the lateness of all topics together, as a topic without a name.
func (n *Notes) all() TopicNotes {
	sum := map[int]int64{}
	for i := range n.Topics {
		for bucket, calls := range n.Topics[i].Lateness {
			sum[bucket] += calls
		}
	}
	return TopicNotes{Lateness: sum}
}

func (t *TopicNotes) appendTo(args []any) []any {
	args = append(args, t.Topic, len(t.Attempts), len(t.Errors), len(t.Lateness))
	for _, a := range t.Attempts {
		args = append(args, a)
	}
	for _, e := range t.Errors {
		args = append(args, e.Fingerprint, e.N, e.Example)
	}
	for b, n := range t.Lateness {
		args = append(args, b, n)
	}
	return args
}

// noted reads the notes about a topic from every shard.
func (q Figures) noted(ctx context.Context, topic string, take func([]any) error, args ...any) error {
	return q.Shards.EachTopic([]string{topic}, 1, func(b *store.Bucket, _ []string) error {
		reply, err := b.CallList(ctx, -1, notedScript, args...)
		if err != nil {
			return err
		}
		return take(reply)
	})
}

// Attempts returns the last noted attempts of a topic as JSON, shard by shard, newest first. With a *PartialError they
// are from the shards that answered; the same applies to the other readers.
func (q Figures) Attempts(ctx context.Context, topic string, limit int) (list [][]byte, err error) {
	err = q.noted(ctx, topic, func(reply []any) error {
		for _, v := range reply {
			list = append(list, []byte(store.Text(v)))
		}
		return nil
	}, "log", topic, limit)
	return list, err
}

// Errors returns the kinds of errors noted for a topic in the last week.
func (q Figures) Errors(ctx context.Context, topic string) ([]ErrorNote, error) {
	byPrint := map[string]ErrorNote{}
	err := q.noted(ctx, topic, func(reply []any) error {
		for i := 0; i+1 < len(reply); i += 2 {
			print, f := store.Text(reply[i]), strings.SplitN(store.Text(reply[i+1]), " ", 4)
			if len(f) != 4 {
				continue
			}
			e, seen := byPrint[print]
			first, last := time.UnixMilli(store.Number(f[1])).UTC(), time.UnixMilli(store.Number(f[2])).UTC()
			if !seen || first.Before(e.First) {
				e.First = first
			}
			if last.After(e.Last) {
				e.Last, e.Example = last, f[3]
			}
			e.Fingerprint, e.N = print, e.N+store.Number(f[0])
			byPrint[print] = e
		}
		return nil
	}, "err", topic)
	list := make([]ErrorNote, 0, len(byPrint))
	for _, e := range byPrint {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b ErrorNote) int { return b.Last.Compare(a.Last) })
	return list, err
}

// ClearErrors removes the noted kinds of errors of a topic.
func (q Figures) ClearErrors(ctx context.Context, topic string) error {
	return q.Shards.EachTopic([]string{topic}, 1, func(b *store.Bucket, _ []string) error {
		_, err := b.Call(ctx, notedScript, "clear", topic)
		return err
	})
}

// latenessReads bounds the slots, counted for each topic, that one call of the script reads.
const latenessReads = 1000

// LatenessCounts sums up the calls of each topic by bucket of lateness since a time, an hour ago at most.
func (q Figures) LatenessCounts(
	ctx context.Context, topics []string, since time.Time,
) (map[string]map[int]int64, error) {
	sums, back := map[string]map[int]int64{}, slotsSince(since)
	err := q.Shards.EachTopic(topics, max(1, latenessReads/(back+1)), func(b *store.Bucket, some []string) error {
		return latenessCounts(ctx, b, back, some, sums)
	})
	return sums, err
}

// LatenessOfAll sums up the calls of all topics together by bucket of lateness.
func (q Figures) LatenessOfAll(ctx context.Context, since time.Time) (map[int]int64, error) {
	sums := map[string]map[int]int64{}
	err := q.Shards.EachBucket(func(b *store.Bucket) error {
		return latenessCounts(ctx, b, slotsSince(since), []string{""}, sums)
	})
	return sums[""], err
}

func latenessCounts(
	ctx context.Context, b *store.Bucket, back int, topics []string, sums map[string]map[int]int64,
) error {
	args := append([]any{"lat", back}, store.Anys(topics)...)
	reply, err := b.CallList(ctx, len(topics), notedScript, args...)
	if err != nil {
		return err
	}
	for i, topic := range topics {
		if sums[topic] == nil {
			sums[topic] = map[int]int64{}
		}
		for n := store.Ints(store.Values(reply[i])); len(n) > 1; n = n[2:] {
			sums[topic][int(n[0])] += n[1]
		}
	}
	return nil
}

// ReserveCounts sums up the jobs reserved by priority since a time, an hour ago at most.
func (q Figures) ReserveCounts(ctx context.Context, since time.Time) (sums [3]int64, err error) {
	err = q.Shards.EachBucket(func(b *store.Bucket) error {
		reply, err := b.CallList(ctx, len(sums), notedScript, "pri", slotsSince(since))
		for i, n := range store.Ints(reply) {
			sums[i] += n
		}
		return err
	})
	return sums, err
}

// slotsSince returns the number of whole 10 s slots between a time and now, at most the hour for which they are kept.
func slotsSince(t time.Time) int {
	return int(min(max(0, time.Since(t)), time.Hour) / (10 * time.Second))
}
