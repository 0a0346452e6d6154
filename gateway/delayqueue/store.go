package delayqueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Queue is the part of a queue.Queue that the gateway needs.
type Queue interface {
	Push(ctx context.Context, p store.Push) store.Result
	End(ctx context.Context, list []store.End) []store.Ended
	gateway.FinderQueue
}

// Namespace is the namespace with the settings of the topics.
const Namespace = "delayqueue.*"

const (
	title  = "delay-queue" // of the namespace
	prefix = "delayqueue."
)

// topicOf returns the topic with the jobs of a delay-queue topic.
func topicOf(name string) string { return prefix + registry.EscapeName(name) }

func nameOf(topic string) string {
	name, _ := registry.UnescapeName(strings.TrimPrefix(topic, prefix))
	return name
}

// jobs accesses the queue for clients that name jobs by id alone.
type jobs struct {
	queue   Queue
	workers gateway.Workers
	finder  *gateway.Finder
}

func newJobs(q Queue, w gateway.Workers) *jobs {
	return &jobs{q, w, gateway.NewFinder(q, Namespace)}
}

// push stores a job. It replaces an existing job with the same id, whatever its topic.
func (s *jobs) push(ctx context.Context, in pushRequest) error {
	topic := topicOf(in.Topic)
	others, err := s.finder.Search(ctx, in.ID)
	if err != nil {
		return err
	}
	result := s.queue.Push(ctx, store.Push{
		Topic: topic, ID: in.ID, Body: []byte(in.Body), ContentType: store.TypeOf([]byte(in.Body)),
		Priority: store.Normal, Delay: min(time.Duration(in.Delay)*time.Second, store.MaxDelay),
		TTR: time.Duration(in.TTR) * time.Second, OnDuplicate: store.Replace,
	})
	if result.Err != nil {
		return result.Err
	}
	s.finder.Met(in.ID, topic)
	for _, other := range others {
		if other != topic {
			if _, _, err := gateway.Remove(ctx, s.queue, other, in.ID); err != nil {
				return fmt.Errorf("remove the job with the same id from topic %s: %w", nameOf(other), err)
			}
		}
	}
	return nil
}

// pop takes a job from the first of these topics that has a ready one. It returns nil if there is none within wait.
func (s *jobs) pop(ctx context.Context, names []string, wait time.Duration) (*store.Job, error) {
	r := pull.Request{Wait: wait, TakeRequest: store.TakeRequest{Order: store.Listed, Max: 1}}
	for _, name := range names {
		r.Topics = append(r.Topics, topicOf(name))
	}
	jobs, err := gateway.Take(ctx, s.workers, r)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	s.finder.Met(jobs[0].ID, jobs[0].Topic)
	return &jobs[0], nil
}

// remove ends the job with an id, whatever its state. A missing job is not an error.
func (s *jobs) remove(ctx context.Context, id string) error {
	_, err := s.finder.Try(ctx, id, func(topic string) (bool, error) {
		_, found, err := gateway.Remove(ctx, s.queue, topic, id)
		return found, err
	})
	return err
}
