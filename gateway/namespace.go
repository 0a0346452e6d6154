package gateway

import (
	"context"
	"fmt"

	"github.com/wakecall/wakecall/internal/registry"
)

// actor is the actor in the audit trail when namespaces are created.
const actor = "gateway"

// Namespace returns the topic with the settings of a protocol's queues. Their jobs have no attempt limit.
func Namespace(name, title string) registry.Topic {
	t := registry.NewTopic(name)
	t.Title, t.Delivery, t.MaxAttempts = title, registry.DeliveryPull, 0
	return t
}

// Namespaces is the part of the registry that stores namespaces.
type Namespaces interface {
	Snapshot() *registry.Snapshot
	PutTopic(
		ctx context.Context, actor string, t registry.Topic, conditions ...registry.Condition,
	) (created bool, err error)
}

// Ensured serves once the registry has the namespaces. The first process to start creates them.
func Ensured(r Namespaces, serve Serve, namespaces ...registry.Topic) Prepare {
	return func(ctx context.Context) (Serve, error) {
		for _, t := range namespaces {
			if r.Snapshot().Topics.Get(t.Name) != nil {
				continue
			}
			if _, err := r.PutTopic(ctx, actor, t); err != nil {
				return nil, fmt.Errorf("create namespace %s: %w", t.Name, err)
			}
		}
		return serve, nil
	}
}
