package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// makeSlotGuard creates the key that shows on which node of a Cluster a bucket is, see guard_slot.lua. It asks the node
// directly, and creates none while the slot is moving: redirections would lead to the node that does not have the
// bucket yet.
func (b *Bucket) makeSlotGuard(ctx context.Context) error {
	cluster, ok := b.shard.client.(*redis.ClusterClient)
	if !ok {
		return errors.New("only a Cluster has slot guards")
	}
	key := b.Key("")
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return err
	}
	slot, err := node.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return err
	}
	nodes, err := node.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	for line := range strings.Lines(nodes) {
		moves := strings.Contains(line, fmt.Sprintf("[%d->-", slot)) ||
			strings.Contains(line, fmt.Sprintf("[%d-<-", slot))
		if moves && strings.Contains(line, "myself") {
			return fmt.Errorf("bucket %d is being moved to another node", b.n)
		}
	}
	return node.SetNX(ctx, key, 1, 0).Err()
}
