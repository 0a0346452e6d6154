package gateway

import (
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
)

// TTROf returns the TTR that applies to a job: its own, or its topic's, as for a job that was pushed through the API.
func TTROf(job *queue.Job, topics *registry.Snapshot) time.Duration {
	if t := topics.TopicOrNamespace(job.Topic); job.TTR == 0 && t != nil {
		return t.TTR.Std()
	}
	return job.TTR
}

// IsOffline reports whether a topic takes no pushes.
func IsOffline(topic string, topics *registry.Snapshot) bool {
	t := topics.TopicOrNamespace(topic)
	return t != nil && t.State == registry.TopicOffline
}
