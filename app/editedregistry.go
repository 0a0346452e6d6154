package app

import (
	"context"
	"errors"
	"strings"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// editedRegistry is the registry as edited by the API and the admin. It rejects a durability that a shard cannot
// provide, and a Redis with the data of another shard.
type editedRegistry struct {
	*registry.Registry
	cfg     *conf.Config
	canKeep func(context.Context, store.Durability) error
}

func (p *parts) editedRegistry() *editedRegistry {
	return &editedRegistry{p.registry, p.cfg, p.queue.Shards.CanKeep}
}

// PutShard rejects a Redis with the data of another shard.
func (r *editedRegistry) PutShard(ctx context.Context, actor string, s registry.Shard) error {
	if err := errors.Join(s.Validate(), setup.CheckRedis(ctx, r.cfg, r.ListShards(), s)); err != nil {
		return err
	}
	return r.Registry.PutShard(ctx, actor, s)
}

func (r *editedRegistry) PutTopic(
	ctx context.Context, actor string, t registry.Topic, conditions ...registry.Condition,
) (created bool, err error) {
	done, err := r.PutTopics(ctx, actor, []registry.Topic{t}, conditions...)
	return err == nil && done[0] == registry.TopicCreated, err
}

// PutTopics checks the durability and the shard only if they have changed, so that the rest of a topic can be edited
// while a replica is down.
func (r *editedRegistry) PutTopics(
	ctx context.Context, actor string, topics []registry.Topic, conditions ...registry.Condition,
) ([]registry.Done, error) {
	checked := map[registry.Durability]bool{}
	for i := range topics {
		if err := r.checkPinned(ctx, &topics[i]); err != nil {
			return nil, err
		}
		d := topics[i].Durability
		if checked[d] || r.hasDurability(&topics[i]) {
			continue
		}
		if err := r.checkDurability(ctx, d); err != nil {
			return nil, err
		}
		checked[d] = true
	}
	return r.Registry.PutTopics(ctx, actor, topics, conditions...)
}

// checkPinned rejects a shard that does not exist, because then all other shards would accept the topic's jobs, out of
// order.
func (r *editedRegistry) checkPinned(ctx context.Context, t *registry.Topic) error {
	if was := r.Snapshot().Topics.Get(t.Name); t.Shard == "" || was != nil && was.Shard == t.Shard {
		return nil
	}
	if r.Snapshot().PresentName(t.Shard) == "" {
		r.Refresh(ctx) // another host may just have added it
	}
	if r.Snapshot().PresentName(t.Shard) != "" {
		return nil
	}
	var names []string
	for _, s := range r.ListShards() {
		names = append(names, s.Name)
	}
	return registry.OutOfRange("shard", "field.no_shard", t.Shard, strings.Join(names, ", "))
}

func (r *editedRegistry) hasDurability(t *registry.Topic) bool {
	was := r.Snapshot().Topics.Get(t.Name)
	return was != nil && was.Durability == t.Durability
}

func (r *editedRegistry) checkDurability(ctx context.Context, wanted registry.Durability) error {
	if err := r.canKeep(ctx, durabilityOf(wanted)); err != nil { // the registry rejects an unknown one
		reasons := strings.ReplaceAll(err.Error(), "\n", "; ")
		return registry.OutOfRange("durability", "field.durability", wanted, reasons)
	}
	return nil
}
