package app

import (
	"context"
	"strings"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// durability is what the queue asks about a topic. A topic that is not known has the default.
func (p *parts) durability(topic string) queue.Durability {
	t := p.registry.Snapshot().Topics[topic]
	if t == nil || t.Durability == registry.DurabilityMemory {
		return queue.Memory
	}
	d, _ := queue.ParseDurability(string(t.Durability))
	return d
}

// editedRegistry is the registry for those who edit topics: it refuses a durability that a shard cannot keep.
type editedRegistry struct {
	*registry.Registry
	canKeep func(context.Context, queue.Durability) error
}

func (p *parts) editedRegistry() *editedRegistry { return &editedRegistry{p.registry, p.queue.CanKeep} }

// PutTopic looks only at a durability that is new: a replica that is away must not keep anybody from editing the rest.
func (r *editedRegistry) PutTopic(ctx context.Context, actor string, t registry.Topic) (created bool, err error) {
	was := r.Snapshot().Topics[t.Name]
	if was == nil || was.Durability != t.Durability {
		d, _ := queue.ParseDurability(string(t.Durability)) // the registry refuses what is none
		if err := r.canKeep(ctx, d); err != nil {
			return false, &registry.FieldError{Field: "durability", OutOfRange: true,
				Detail: string(t.Durability) + " cannot be kept by every active shard: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
		}
	}
	return r.Registry.PutTopic(ctx, actor, t)
}
