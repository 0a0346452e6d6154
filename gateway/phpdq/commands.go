package phpdq

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

func (s *Server) add(ctx context.Context, r *request) (answer, string) {
	p, err := s.push(ctx, r)
	if err != nil {
		s.Endpoint.Log.Debug("job refused", "topic", string(r.Topic), "id", string(r.ID), "error", err)
		return failed, gateway.Refused
	}
	if s.Healthy() != nil {
		s.Refused(p.Topic, "journal")
		return failed, gateway.Unavailable
	}
	result := s.Jobs.Push(ctx, *p)
	if result.Err != nil {
		return failed, s.why("add", result.Err)
	}
	return succeeded, gateway.Done
}

// Errors of add.
var (
	errTopic   = errors.New("topic is not registered")
	errOffline = errors.New("topic is offline")
	errID      = errors.New("id must be a number or a string of 1 to 128 printable bytes")
	errTime    = errors.New("fix_time must be a time")
)

func (s *Server) push(ctx context.Context, r *request) (*store.Push, error) {
	topic, id := s.topic(ctx, r), idOf(r.ID)
	switch {
	case topic == nil:
		return nil, errTopic
	case topic.State == registry.TopicOffline:
		return nil, errOffline
	case id == "":
		return nil, errID
	}
	p := &store.Push{Topic: topic.Name, ID: id, Body: bodyOf(r.Body), OnDuplicate: store.Replace}
	p.Priority, _ = store.ParsePriority(topic.Priority) // a stored topic is valid
	if len(r.FixTime) == 0 || r.FixTime.Kind() == 'n' {
		p.Delay = topic.Delay.Std()
		return p, nil
	}
	due, ok := parseTime(phpText(r.FixTime), s.now().In(s.Zone))
	if !ok {
		return nil, errTime
	}
	p.DueAt = due
	return p, nil
}

func (s *Server) get(ctx context.Context, r *request) (answer, string) {
	job, result := s.find(ctx, "get", r)
	if job == nil {
		return failed, result
	}
	body := parseBody(job.Body).failed(job.Attempts).stamp(dueOf(job), job.CreatedAt, s.Zone)
	return answer{1, "succ", body.json()}, gateway.Done
}

// dueOf returns the time of the job's next call.
func dueOf(j *store.Job) time.Time {
	if j.NextAt.After(j.DueAt) {
		return j.NextAt
	}
	return j.DueAt
}

func (s *Server) del(ctx context.Context, r *request) (answer, string) {
	job, result := s.find(ctx, "del", r)
	if job == nil {
		return failed, result
	}
	if err := s.Jobs.Delete(ctx, job.Topic, job.ID, nil); err != nil {
		return failed, s.why("del", err)
	}
	return succeeded, gateway.Done
}

// find returns the job of a request. It ignores a dead job, whose calls are over.
func (s *Server) find(ctx context.Context, command string, r *request) (*store.Job, string) {
	topic, id := s.topic(ctx, r), idOf(r.ID)
	if topic == nil || id == "" {
		return nil, gateway.Refused
	}
	job, err := s.Jobs.Get(ctx, topic.Name, id)
	switch {
	case err != nil:
		return nil, s.why(command, err)
	case job.State == store.Dead:
		return nil, gateway.Refused
	}
	return job, gateway.Done
}

// why returns the result, for the metrics, of a command that the queue rejected.
func (s *Server) why(command string, err error) string {
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrTooFar) {
		return gateway.Refused
	}
	s.Endpoint.Log.Warn("command failed", "command", command, "error", err)
	return gateway.Unavailable
}

// topic returns the push topic of a request.
func (s *Server) topic(ctx context.Context, r *request) *registry.Topic {
	name := strings.ToLower(phpText(r.Topic))
	topic := s.Topics.Snapshot().Topics.Get(name)
	if topic == nil { // another process may just have registered it
		s.Topics.Refresh(ctx)
		topic = s.Topics.Snapshot().Topics.Get(name)
	}
	if topic == nil || topic.Delivery == registry.DeliveryPull {
		return nil
	}
	return topic
}

// idOf returns the id of a job, or "" if the request has no id that Wakecall accepts.
func idOf(v jsontext.Value) string {
	if id := phpText(v); store.CheckID(id) == nil {
		return id
	}
	return ""
}

// phpText returns a string or a number in the form that PHP uses for a key.
func phpText(v jsontext.Value) (s string) {
	switch v.Kind() {
	case '"':
		_ = json.Unmarshal(v, &s)
	case '0':
		s = string(v)
	}
	return s
}

// bodyOf returns the body to store. The Java client sends an object as a string.
func bodyOf(v jsontext.Value) []byte {
	switch v.Kind() {
	case '"':
		if inner := jsontext.Value(phpText(v)); inner.Kind() == '{' && inner.IsValid(duplicates) {
			return inner
		}
	case 'n', jsontext.KindInvalid:
		return []byte("{}")
	}
	return v
}
