package test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// sentinels are a master, a replica, and three Sentinels that watch them.
type sentinels struct {
	Servers  []*harness.Redis
	Watchers []*harness.Redis
}

// startSentinels starts them and waits until the replica follows and the Sentinels know each other.
func startSentinels(t testing.TB) *sentinels {
	t.Helper()
	s := &sentinels{}
	master, replica := harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})
	if err := replica.Follow(t.Context(), master); err != nil {
		t.Fatal(err)
	}
	s.Servers = []*harness.Redis{master, replica}
	for range 3 {
		s.Watchers = append(s.Watchers, harness.StartRedis(t, harness.RedisOptions{Sentinel: fmt.Sprintf(
			"sentinel monitor mymaster 127.0.0.1 %s 2\nsentinel down-after-milliseconds mymaster 3000\n"+
				"sentinel failover-timeout mymaster 4000\n", portOf(master))}))
	}
	for _, w := range s.Watchers {
		c := redis.NewSentinelClient(&redis.Options{Addr: w.Addr()})
		t.Cleanup(func() { _ = c.Close() })
		harness.Eventually(t, harness.Patience, "the Sentinels to know each other and the replica", func() error {
			others, err := c.Sentinels(t.Context(), "mymaster").Result()
			if err != nil {
				return err
			}
			replicas, err := c.Replicas(t.Context(), "mymaster").Result()
			if err == nil && (len(others) != 2 || len(replicas) != 1) {
				err = fmt.Errorf("%d Sentinels, %d replicas", len(others), len(replicas))
			}
			return err
		})
	}
	return s
}

// URL returns the deployment's URL for redis.nodes.
func (s *sentinels) URL() string {
	var addrs []string
	for _, w := range s.Watchers {
		addrs = append(addrs, w.Addr())
	}
	return "redis+sentinel://" + strings.Join(addrs, ";") + "/mymaster"
}

// cluster is a Redis Cluster of three masters with a replica each.
type cluster struct {
	t     testing.TB
	Nodes []*harness.Redis
}

// startCluster starts six nodes, joins them to a Cluster, and waits until all agree.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{t: t}
	args := []string{"--cluster", "create"}
	for range 6 {
		n := harness.StartRedis(t, harness.RedisOptions{Args: []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-require-full-coverage", "no",
		}})
		c.Nodes = append(c.Nodes, n)
		args = append(args, n.Addr())
	}
	out, err := exec.Command(process.Need(t, "redis-cli", "redis-tools"),
		append(args, "--cluster-replicas", "1", "--cluster-yes")...).
		CombinedOutput()
	if err != nil {
		t.Fatalf("create the Cluster: %v\n%s", err, out)
	}
	for _, n := range c.Nodes {
		harness.Eventually(t, harness.Patience, "the Cluster's nodes to agree, and replicas to follow", func() error {
			info, err := n.Client().ClusterInfo(t.Context()).Result()
			if err != nil {
				return err
			}
			follows, err := n.Client().Info(t.Context(), "replication").Result()
			if err == nil &&
				(!strings.Contains(info, "cluster_state:ok") || strings.Contains(follows, "master_link_status:down")) {
				err = fmt.Errorf("it answers %s %s", info, follows)
			}
			return err
		})
	}
	return c
}

// URL returns the Cluster's URL for redis.nodes.
func (c *cluster) URL() string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	return "redis+cluster://" + strings.Join(addrs, ";")
}

// Owner returns the master that has a key's slot, according to the first running node.
func (c *cluster) Owner(key string) *harness.Redis {
	c.t.Helper()
	var owner *harness.Redis
	harness.Eventually(c.t, harness.Patience, "a master to have "+key, func() error {
		for _, n := range c.Nodes {
			if n.Exited() {
				continue
			}
			slot, err := n.Client().ClusterKeySlot(c.t.Context(), key).Result()
			if err != nil {
				continue
			}
			shards, err := n.Client().ClusterShards(c.t.Context()).Result()
			if err != nil {
				continue
			}
			for _, shard := range shards {
				if owner = c.masterWith(shard, slot); owner != nil {
					return nil
				}
			}
		}
		return fmt.Errorf("no running node has it")
	})
	return owner
}

// masterWith returns the running master in a node's part of the Cluster that has a slot, if there is one.
func (c *cluster) masterWith(shard redis.ClusterShard, slot int64) *harness.Redis {
	if !slices.ContainsFunc(shard.Slots, func(r redis.SlotRange) bool { return slot >= r.Start && slot <= r.End }) {
		return nil
	}
	for _, m := range shard.Nodes {
		for _, n := range c.Nodes {
			if m.Role == "master" && fmt.Sprint(m.Port) == portOf(n) && !n.Exited() {
				return n
			}
		}
	}
	return nil
}

// Move moves the slot of a key to another node, two keys at a time, as redis-cli's reshard does; between is called after
// each step. The key is the first to move: newer servers list a slot's keys in any order.
func (c *cluster) Move(key string, to *harness.Redis, between func()) {
	c.t.Helper()
	ctx, from := c.t.Context(), c.Owner(key)
	src, dst := from.Client(), to.Client()
	slot := src.ClusterKeySlot(ctx, key).Val()
	fromID, toID := src.ClusterMyID(ctx).Val(), dst.ClusterMyID(ctx).Val()
	do := func(client *redis.Client, args ...any) {
		c.t.Helper()
		if err := client.Do(ctx, args...).Err(); err != nil {
			c.t.Fatalf("move slot %d: %v: %v", slot, args, err)
		}
	}
	do(dst, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(src, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	for keys := []string{key}; len(keys) > 0; {
		args := []any{"MIGRATE", "127.0.0.1", portOf(to), "", 0, 5000, "KEYS"}
		for _, k := range keys {
			args = append(args, k)
		}
		do(src, args...)
		between()
		var err error
		if keys, err = src.ClusterGetKeysInSlot(ctx, int(slot), 2).Result(); err != nil {
			c.t.Fatal(err)
		}
	}
	do(dst, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	do(src, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	for _, n := range c.Nodes {
		if n != from && n != to && n.Role() == "master" {
			do(n.Client(), "CLUSTER", "SETSLOT", slot, "NODE", toID)
		}
	}
}

func portOf(r *harness.Redis) string {
	_, port, _ := strings.Cut(r.Addr(), ":")
	return port
}
