package dispatcher

import (
	"log/slog"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// refuse returns the outcome of a job that is not callable.
func (s *reserver) refuse(r *reservation, topic *registry.Topic) *outcome {
	reason := "locked"
	switch {
	case topic == nil:
		return s.refuseUnknown(r)
	case topic.Delivery == registry.DeliveryPull: // Redis does not know the change yet
		reason = "pull topic"
	case topic.State != registry.TopicActive:
		reason = string(topic.State)
	case !topic.Locked:
		return end(r, store.Expire, "expired")
	}
	s.noteReleased(r.Topic)
	return end(r, store.Release, reason)
}

// refuseUnknown returns the outcome of a job whose topic is not in the registry. The job dies only if the topic was
// deleted. If an old backup of the registry was restored, the job waits. If this host uses another registry than the
// others, they know the topic, so nothing is stored that would hold up their calls.
func (s *reserver) refuseUnknown(r *reservation) *outcome {
	deleted, err := s.d.deleted(r.Topic)
	if deleted {
		return end(r, store.Expire, "topic deleted")
	}
	o := end(r, store.Release, "topic unknown")
	if err != nil {
		s.noteReleased(r.Topic)
	} else if !s.noteUnknown(r.Topic) {
		o.Delay = uncallableFor
	}
	return o
}

// shortage logs that this host lacks descriptors or memory for calls.
type shortage struct {
	mu     sync.Mutex
	logged time.Time
}

// shortageEvery is how often this is logged.
const shortageEvery = time.Minute

func (s *shortage) log(log *slog.Logger, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.logged.IsZero() && time.Since(s.logged) < shortageEvery {
		return
	}
	s.logged = time.Now()
	log.Error("cannot make callbacks; their jobs wait, and no attempts are counted", "error", reason)
}

// A job whose topic cannot be called, for example because its retry_if is no longer valid, waits until the topic is
// corrected. No attempt is counted, but the topic's breaker opens, so that its backlog causes little load and an alert
// is raised.
const (
	uncallable    = "topic"
	uncallableFor = time.Minute
)
