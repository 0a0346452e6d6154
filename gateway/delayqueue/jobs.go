package delayqueue

import (
	"context"
	"errors"
	"strings"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/store"
)

type pushRequest struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
	Delay int64  `json:"delay"` // seconds
	TTR   int64  `json:"ttr"`   // seconds
	Body  string `json:"body"`
}

// check validates the members in the same order as delay-queue.
func (in *pushRequest) check() error {
	in.Topic, in.ID = strings.TrimSpace(in.Topic), strings.TrimSpace(in.ID)
	switch {
	case in.ID == "":
		return failure(noID)
	case in.Topic == "":
		return failure(noTopic)
	case in.Delay <= 0 || in.Delay > maxDelay:
		return failure(wrongDelay)
	case in.TTR <= 0 || in.TTR > maxTTR:
		return failure(wrongTTR)
	}
	if err := store.CheckID(in.ID); err != nil {
		return failure("job id: " + err.Error())
	}
	return nil
}

func (g *Gateway) push(ctx context.Context, in pushRequest) (string, any, error) {
	if err := in.check(); err != nil {
		return "", nil, err
	}
	if gateway.IsOffline(topicOf(in.Topic), g.topics()) {
		g.Log.Debug("push refused: topic is offline", "topic", in.Topic, "id", in.ID)
		return "", nil, failure(notAdded)
	}
	if err := g.jobs.push(ctx, in); err != nil {
		return "", nil, failed(notAdded, err)
	}
	return added, nil, nil
}

type popRequest struct {
	Topic string `json:"topic"`
}

type poppedJob struct {
	ID    string `json:"id"`
	Body  string `json:"body"`
	lease *store.Lease
}

func (g *Gateway) pop(ctx context.Context, in popRequest) (string, any, error) {
	list := strings.TrimSpace(in.Topic)
	if list == "" {
		return "", nil, failure(noPopTopic)
	}
	topics := named(list)
	if err := pull.CheckRequest(len(topics), g.MaxTopics); err != nil {
		return "", nil, failure(err.Error())
	}
	job, err := g.jobs.pop(ctx, topics, g.popWait)
	if limit, ok := errors.AsType[*pull.LimitError](err); ok {
		return "", nil, failure(limit.Error())
	}
	if err != nil {
		return "", nil, failed(notPopped, err)
	}
	if job == nil {
		return done, nil, nil
	}
	return done, poppedJob{ID: job.ID, Body: string(job.Body), lease: job.Lease}, nil
}

// named returns the topics of a comma-separated list that can have jobs. Like delay-queue, it does not trim them, but a
// push trims its topic.
func named(list string) (topics []string) {
	for topic := range strings.SplitSeq(list, ",") {
		if topic != "" && topic == strings.TrimSpace(topic) {
			topics = append(topics, topic)
		}
	}
	return topics
}

type idRequest struct {
	ID string `json:"id"`
}

func (g *Gateway) remove(ctx context.Context, in idRequest) (string, any, error) {
	id := strings.TrimSpace(in.ID)
	if id == "" {
		return "", nil, failure(noID)
	}
	if err := g.jobs.remove(ctx, id); err != nil {
		return "", nil, failed(notDeleted, err)
	}
	return done, nil, nil
}

type foundJob struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
	Delay int64  `json:"delay"` // due time, Unix seconds
	TTR   int64  `json:"ttr"`
	Body  string `json:"body"`
}

func (g *Gateway) get(ctx context.Context, in idRequest) (string, any, error) {
	id := strings.TrimSpace(in.ID)
	if id == "" {
		return "", nil, failure(noID)
	}
	job, err := g.jobs.finder.Get(ctx, id)
	if err != nil {
		return "", nil, failed(notFetched, err)
	}
	if job == nil {
		return done, nil, nil
	}
	return done, foundJob{
		Topic: nameOf(job.Topic), ID: id, Delay: job.DueAt.Unix(), TTR: int64(gateway.TTROf(job, g.topics()).Seconds()),
		Body: string(job.Body),
	}, nil
}
