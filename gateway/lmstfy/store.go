package lmstfy

import (
	"context"
	"errors"
	"strings"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Queue is the part of a queue.Queue that the gateway needs.
type Queue interface {
	Push(ctx context.Context, p store.Push) store.Result
	PushBatch(ctx context.Context, pushes []store.Push) []store.Result
	End(ctx context.Context, list []store.End) []store.Ended
	Get(ctx context.Context, topic, id string, also ...store.State) (*store.Job, error)
	List(ctx context.Context, topic string, state store.State, cursor string, limit int) ([]store.Job, string, error)
	Stats(ctx context.Context, topics []string) (map[string]store.Stats, error)
	Members(ctx context.Context, namespace string) ([]string, error)
	EndDead(ctx context.Context, c store.DeadCall) (int, error)
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
		var jobs []store.Job
		if jobs, _, err = g.Queue.List(ctx, topic, store.Ready, "", min(step, left)); len(jobs) == 0 {
			return err
		}
		err = g.removeReady(ctx, jobs)
	}
	return err
}

// removeReady removes the given jobs, unless they are no longer ready.
func (g *Gateway) removeReady(ctx context.Context, jobs []store.Job) error {
	list := make([]store.End, len(jobs))
	for i, job := range jobs {
		list[i] = store.End{Ref: store.Ref{Topic: job.Topic, ID: job.ID}, In: []store.State{store.Ready},
			Verb: store.Done}
	}
	for _, done := range g.Queue.End(ctx, list) {
		if done.Err != nil && !gateway.IsMissing(done.Err) {
			return done.Err
		}
	}
	return nil
}

func (g *Gateway) counts(ctx context.Context, topic string) (store.Stats, error) {
	stats, err := g.Queue.Stats(ctx, []string{topic})
	return stats[topic], err
}

// oldest returns the first of a topic's jobs in a state, or nil.
func (g *Gateway) oldest(ctx context.Context, topic string, state store.State) (*store.Job, error) {
	for {
		jobs, _, err := g.Queue.List(ctx, topic, state, "", 1)
		if err != nil || len(jobs) == 0 {
			return nil, err
		}
		job, err := g.Queue.Get(ctx, topic, jobs[0].ID) // with its body, which lists may omit
		if !errors.Is(err, store.ErrNotFound) {
			return job, err
		}
	}
}
