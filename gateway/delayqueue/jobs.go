package delayqueue

import (
	"context"
	"fmt"
	"strings"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/queue"
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
	if err := queue.CheckID(in.ID); err != nil {
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
	if err := g.store.push(ctx, in); err != nil {
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
	lease string
}

// maxPopTopics bounds the load of a pop on the shards.
const maxPopTopics = 1000

func (g *Gateway) pop(ctx context.Context, in popRequest) (string, any, error) {
	topics := named(in.Topic)
	switch {
	case len(topics) == 0:
		return "", nil, failure(noPopTopic)
	case len(topics) > maxPopTopics:
		return "", nil, failure(fmt.Sprintf("topic has %d names; the limit is %d", len(topics), maxPopTopics))
	}
	job, err := g.store.pop(ctx, topics, g.popWait)
	if err != nil {
		return "", nil, failed(notPopped, err)
	}
	if job == nil {
		return done, nil, nil
	}
	return done, poppedJob{ID: job.ID, Body: string(job.Body), lease: job.Lease}, nil
}

// named returns the topics of a comma-separated list.
func named(list string) (topics []string) {
	for topic := range strings.SplitSeq(list, ",") {
		if topic = strings.TrimSpace(topic); topic != "" {
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
	if err := g.store.remove(ctx, id); err != nil {
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
	job, err := g.store.finder.Get(ctx, id)
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
