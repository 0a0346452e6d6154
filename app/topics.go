package app

import (
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// durability returns a topic's durability, or the default for an unknown topic.
func (p *parts) durability(topic string) store.Durability {
	t := p.registry.Snapshot().TopicOrNamespace(topic)
	if t == nil {
		return store.Memory
	}
	return durabilityOf(t.Durability)
}

func durabilityOf(d registry.Durability) store.Durability {
	if d == registry.DurabilityReplica {
		return store.Replica
	}
	return store.Memory
}

// remembers reports whether a push that repeats a finished job of a topic counts as a duplicate.
func (p *parts) remembers(topic string) bool {
	t := p.registry.Snapshot().TopicOrNamespace(topic)
	return t != nil && t.Remember > 0
}

// shardOf returns the shard of a schedule, or "".
func (p *parts) shardOf(schedule string) string {
	if s := p.registry.Snapshot().Schedules.Get(schedule); s != nil {
		return s.Shard
	}
	return ""
}

// pinned returns the shard that a topic is pinned to, or "".
func (p *parts) pinned(topic string) string {
	snapshot := p.registry.Snapshot()
	t := snapshot.TopicOrNamespace(topic)
	if t == nil || t.Shard == "" {
		return ""
	}
	return snapshot.PresentName(t.Shard)
}
