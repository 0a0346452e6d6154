package gateway

import (
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// TTROf returns the TTR that applies to a job: its own or, if it has none, its topic's.
func TTROf(job *store.Job, topics *registry.Snapshot) time.Duration {
	if t := topics.TopicOrNamespace(job.Topic); job.TTR == 0 && t != nil {
		return t.TTR.Std()
	}
	return job.TTR
}

// IsOffline reports whether a topic is offline and refuses pushes.
func IsOffline(topic string, topics *registry.Snapshot) bool {
	t := topics.TopicOrNamespace(topic)
	return t != nil && t.State == registry.TopicOffline
}
