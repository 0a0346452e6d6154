package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
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
func (e *Endpoint) Ensured(r Namespaces, serve Serve, namespaces ...registry.Topic) Serve {
	return func(ctx context.Context, l net.Listener) error {
		for _, t := range namespaces {
			if err := e.ensure(ctx, r, t); err != nil {
				return errors.Join(err, l.Close())
			}
		}
		return serve(ctx, l)
	}
}

// ensureRetry is the pause before the next attempt while the database is unavailable.
const ensureRetry = time.Second

func (e *Endpoint) ensure(ctx context.Context, r Namespaces, t registry.Topic) error {
	for r.Snapshot().Topics.Get(t.Name) == nil {
		_, err := r.PutTopic(ctx, actor, t)
		if err == nil {
			return nil
		}
		if !errors.Is(err, database.ErrUnavailable) {
			return fmt.Errorf("create namespace %s: %w", t.Name, err)
		}
		e.Log.Warn("create namespace; retrying", "namespace", t.Name, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(ensureRetry):
		}
	}
	return nil
}
