package app

import (
	"context"
	"strings"

	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// durability is a topic's durability; of an unknown topic it is the default.
func (p *parts) durability(topic string) queue.Durability {
	t := p.registry.Snapshot().Topic(topic)
	if t == nil || t.Durability == registry.DurabilityMemory {
		return queue.Memory
	}
	d, _ := queue.ParseDurability(string(t.Durability))
	return d
}

// editedRegistry is the registry for the API and the admin: it refuses a durability that a shard cannot keep.
type editedRegistry struct {
	*registry.Registry
	canKeep func(context.Context, queue.Durability) error
}

func (p *parts) editedRegistry() *editedRegistry { return &editedRegistry{p.registry, p.queue.CanKeep} }

// PutTopic checks a changed durability only: while a replica is away, the rest of a topic can be edited.
func (r *editedRegistry) PutTopic(ctx context.Context, actor string, t registry.Topic) (created bool, err error) {
	was := r.Snapshot().Topics.Get(t.Name)
	if was == nil || was.Durability != t.Durability {
		d, _ := queue.ParseDurability(string(t.Durability)) // the registry refuses an unknown one
		if err := r.canKeep(ctx, d); err != nil {
			reasons := strings.ReplaceAll(err.Error(), "\n", "; ")
			return false, &registry.FieldError{
				Field: "durability", OutOfRange: true, Detail: string(t.Durability) + " cannot be kept by every active shard: " + reasons,
			}
		}
	}
	return r.Registry.PutTopic(ctx, actor, t)
}
