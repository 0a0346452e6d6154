package lmstfy

import (
	"context"
	"errors"
	"strings"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// Queue is the part of a queue.Queue that the gateway needs.
type Queue interface {
	Push(ctx context.Context, p queue.Push) queue.Result
	PushBatch(ctx context.Context, pushes []queue.Push) []queue.Result
	End(ctx context.Context, list []queue.End) []queue.Ended
	Get(ctx context.Context, topic, id string) (*queue.Job, error)
	List(ctx context.Context, topic string, state queue.State, cursor string, limit int) ([]queue.Job, string, error)
	Stats(ctx context.Context, topics []string) (map[string]queue.Stats, error)
	Members(ctx context.Context, namespace string) ([]string, error)
	RedriveAs(ctx context.Context, topic string, limit int, as queue.Renewal) (int, error)
	DeleteDead(ctx context.Context, topic string, ids []string, limit int) (int, error)
}

// namesOf returns the namespace and the queue of a topic.
func namesOf(topic string) (namespace, name string) {
	parts := strings.SplitN(topic, ".", 3)
	if len(parts) < 3 {
		return "", topic
	}
	namespace, _ = registry.UnescapeName(parts[1])
	name, _ = registry.UnescapeName(parts[2])
	return namespace, name
}

func queueOf(topic string) string {
	_, name := namesOf(topic)
	return name
}

// step is the batch size when many jobs are read.
const step = 100

// deleteReady deletes as many ready jobs of a topic as there are now.
func (g *Gateway) deleteReady(ctx context.Context, topic string) error {
	counts, err := g.counts(ctx, topic)
	for left := int(counts.Ready); left > 0 && err == nil; left -= step {
		var jobs []queue.Job
		if jobs, _, err = g.Queue.List(ctx, topic, queue.Ready, "", min(step, left)); len(jobs) == 0 {
			return err
		}
		err = g.removeReady(ctx, jobs)
	}
	return err
}

// removeReady removes the given jobs, unless they are no longer ready.
func (g *Gateway) removeReady(ctx context.Context, jobs []queue.Job) error {
	list := make([]queue.End, len(jobs))
	for i, job := range jobs {
		list[i] = queue.End{Ref: queue.Ref{Topic: job.Topic, ID: job.ID}, In: []queue.State{queue.Ready},
			Verb: queue.Done}
	}
	for _, done := range g.Queue.End(ctx, list) {
		if done.Err != nil && !gateway.IsMissing(done.Err) {
			return done.Err
		}
	}
	return nil
}

func (g *Gateway) counts(ctx context.Context, topic string) (queue.Stats, error) {
	stats, err := g.Queue.Stats(ctx, []string{topic})
	return stats[topic], err
}

// oldest returns the first of a topic's jobs in a state, or nil.
func (g *Gateway) oldest(ctx context.Context, topic string, state queue.State) (*queue.Job, error) {
	for {
		jobs, _, err := g.Queue.List(ctx, topic, state, "", 1)
		if err != nil || len(jobs) == 0 {
			return nil, err
		}
		job, err := g.Queue.Get(ctx, topic, jobs[0].ID) // with its body, which lists may omit
		if !errors.Is(err, queue.ErrNotFound) {
			return job, err
		}
	}
}
