package store

import (
	"context"
	"fmt"
	"regexp"
	"time"
)

// ListStep bounds the jobs that one call of the list script reads.
const ListStep = 100

// InnerCursor matches the cursors of the list script.
var InnerCursor = regexp.MustCompile(
	`^(|[drux][1-4]:[.0-9e+]{1,24}:[^\n]+|f\d{1,15}:\d{1,9}|o[.0-9e+]{1,24}:[^\n]+)$`,
)

// CursorsOf maps a state to the first letters of the list script's inner cursors. A cursor of another state would be
// misread and return a page of other jobs.
var CursorsOf = map[State]string{Delayed: "df", Ready: "r", Running: "u", Dead: "x", Finished: "o"}

// FromLast is an inner cursor that lists dead jobs from the last to die, and has no next page.
const FromLast = "last"

// List calls the list script. prefix is the beginning of the ids of finished jobs.
func (b *Bucket) List(
	ctx context.Context, topic string, state State, inner string, limit int, prefix string,
) (jobs []Job, next string, err error) {
	reply, err := b.CallList(ctx, -1, listScript, topic, string(state), inner, limit, prefix)
	if err != nil {
		return nil, "", err
	}
	if len(reply) < 2 {
		return nil, "", fmt.Errorf("list %s: %w", topic, ErrReply)
	}
	next, _ = reply[1].(string)
	return b.listed(topic, state, reply[2:], micros(reply[0])), next, nil
}

// listed decodes descriptions of jobs, and leaves out those that are in another state.
func (b *Bucket) listed(topic string, state State, descriptions []any, now time.Time) (jobs []Job) {
	for _, d := range descriptions {
		job, err := b.Described(topic, d, now)
		if err != nil {
			b.shard.log.Warn("a job cannot be listed", "topic", topic, "error", err)
			continue
		}
		job.History = job.History[max(0, len(job.History)-1):]
		if job.State == state { // it may have changed its state between two steps
			jobs = append(jobs, *job)
		}
	}
	return jobs
}

// First returns ready jobs of a topic with an order of its own, the first ones in that order.
func (b *Bucket) First(ctx context.Context, topic string) ([]Job, error) {
	reply, err := b.CallList(ctx, -1, firstScript, topic, ListStep)
	if err != nil {
		return nil, err
	}
	if len(reply) == 0 {
		return nil, fmt.Errorf("list %s: %w", topic, ErrReply)
	}
	return b.listed(topic, Ready, reply[1:], micros(reply[0])), nil
}
