package queue

import (
	"context"
	"errors"

	"github.com/wakecall/wakecall/internal/store"
)

func (q *Queue) durability(topic string) store.Durability {
	if q.opts.Durability == nil {
		return store.Memory
	}
	return q.opts.Durability(topic)
}

// CanKeep returns an error that names the active shards that cannot provide a durability, and why. It ignores shards
// that do not answer.
func (q *Queue) CanKeep(ctx context.Context, d store.Durability) error {
	if d == store.Memory {
		return nil
	}
	var errs []error
	for _, s := range *q.shards.Load() {
		if s.State() == "active" && s.Up() {
			errs = append(errs, s.HasReplicas(ctx))
		}
	}
	return errors.Join(errs...)
}
