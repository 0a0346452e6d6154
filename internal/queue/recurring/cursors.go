package recurring

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// Cursors returns the cursors of schedules by name, in a few calls to each shard. It lacks those that do not exist yet.
// With a *queue.PartialError it is without the shards that did not answer.
func (s *Schedules) Cursors(ctx context.Context, list []*registry.Schedule) (map[string]*store.Cursor, error) {
	shards := map[string]*store.Shard{}
	for _, one := range s.queue.Shards.All() {
		shards[one.Name()] = one
	}
	names, away := map[*store.Bucket][]string{}, &queue.PartialError{Err: registry.ErrNoShard}
	missing := map[string]bool{}
	for _, def := range list {
		one := shards[def.Shard]
		if one == nil {
			missing[def.Shard] = true
			continue
		}
		b := one.BucketOf(def.Topic)
		names[b] = append(names[b], def.Name)
	}
	found := make(map[string]*store.Cursor, len(list))
	for b, some := range names {
		if missing[b.Name()] {
			continue // another of its buckets did not answer
		}
		cursors, err := b.Cursors(ctx, some)
		if err != nil {
			missing[b.Name()], away.Err = true, fmt.Errorf("read schedules of %s: %w", b.Name(), err)
		}
		maps.Copy(found, cursors)
	}
	if away.Shards = slices.Sorted(maps.Keys(missing)); len(missing) > 0 {
		return found, away
	}
	return found, nil
}
