package recurring

import (
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule"
	"github.com/wakecall/wakecall/internal/store"
)

// manualID returns the id of a job that is pushed by hand. It is never that of an occurrence.
func manualID(name string, at time.Time) string {
	return name + "!" + at.UTC().Format("2006-01-02T15:04:05.000Z")
}

// jobOf returns the push of a schedule's job.
func jobOf(s *registry.Schedule, topic *registry.Topic, id string, due, nominal time.Time) store.Push {
	priority := s.Priority
	if priority == "" {
		priority = topic.Priority
	}
	p, err := store.ParsePriority(priority)
	if err != nil {
		p = store.Normal
	}
	return store.Push{
		Topic: s.Topic, ID: id, Body: s.Body, Priority: p, DueAt: due, Headers: s.Headers,
		Schedule: s.Name, For: nominal, OnDuplicate: store.Keep,
	}
}

// jobsOf returns the pushes of occurrences.
func jobsOf(s *registry.Schedule, topic *registry.Topic, p *schedule.Policy, list []time.Time) []store.Push {
	jobs := make([]store.Push, len(list))
	for i, at := range list {
		jobs[i] = jobOf(s, topic, schedule.OccurrenceID(s.Name, at), p.Due(at), at)
	}
	return jobs
}
