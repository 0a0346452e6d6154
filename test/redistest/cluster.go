package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/wait"
)

// Cluster is a Redis Cluster of three masters, each with as many replicas.
type Cluster struct {
	*Deployment
	t testing.TB
}

const (
	clusterMasters = 3
	clusterSlots   = 16384
)

// StartCluster starts a Cluster whose nodes announce their proxies, and waits until all agree.
func StartCluster(t testing.TB, replicas int) *Cluster {
	t.Helper()
	c := &Cluster{&Deployment{Kind: "cluster"}, t}
	var addrs []string
	for range clusterMasters * (1 + replicas) {
		n := startNode(t, func(port, proxy string) []string {
			return []string{
				"--cluster-enabled", "yes", "--cluster-node-timeout", "5000", "--cluster-require-full-coverage", "no",
				"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", proxy,
				"--cluster-announce-bus-port", busPort(port),
			}
		})
		c.Nodes, addrs = append(c.Nodes, n), append(addrs, n.Proxy.Addr())
	}
	c.URLs = []string{"redis+cluster://" + strings.Join(addrs, ";")}
	c.join()
	return c
}

func (c *Cluster) join() {
	c.t.Helper()
	for i, n := range c.Nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < clusterMasters {
			n.Do("CLUSTER", "ADDSLOTSRANGE", i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters-1)
		}
		if i > 0 {
			n.Do("CLUSTER", "MEET", "127.0.0.1", portOf(c.Nodes[0].Addr()))
		}
	}
	for _, n := range c.Nodes {
		wait.For(c.t, "the Cluster's nodes to know each other", func() bool {
			known, err := n.client.ClusterNodes(c.t.Context()).Result()
			return err == nil && strings.Count(known, "\n") == len(c.Nodes) && !strings.Contains(known, "handshake") &&
				!slices.ContainsFunc(c.Nodes, func(n *Node) bool {
					return !strings.Contains(known, n.Proxy.Addr()+"@")
				})
		})
	}
	for i, n := range c.Nodes[clusterMasters:] {
		n.Do("CLUSTER", "REPLICATE", c.Nodes[i%clusterMasters].Do("CLUSTER", "MYID"))
	}
	for _, n := range c.Nodes {
		wait.For(c.t, "the Cluster's nodes to agree, and replicas to follow", func() bool {
			return n.agrees(c.t.Context(), len(c.Nodes)-clusterMasters)
		})
	}
}

// agrees reports whether a node finds the Cluster complete, with as many replicas.
func (n *Node) agrees(ctx context.Context, replicas int) bool {
	info, err := n.client.ClusterInfo(ctx).Result()
	if err != nil || !strings.Contains(info, "cluster_state:ok") ||
		!strings.Contains(info, fmt.Sprint("cluster_size:", clusterMasters)) {
		return false
	}
	nodes, err := n.client.ClusterNodes(ctx).Result()
	if err != nil || strings.Count(nodes, "slave ") != replicas {
		return false
	}
	follows, err := n.client.Info(ctx, "replication").Result()
	return err == nil && !strings.Contains(follows, "master_link_status:down")
}

// Owner returns the running master that has a key's slot, according to the first node that answers.
func (c *Cluster) Owner(key string) *Node {
	c.t.Helper()
	var owner *Node
	wait.For(c.t, "a master to have "+key, func() bool {
		for _, n := range c.Nodes {
			if n.Exited() {
				continue
			}
			slot, err := n.client.ClusterKeySlot(c.t.Context(), key).Result()
			if err != nil {
				continue
			}
			shards, err := n.client.ClusterShards(c.t.Context()).Result()
			if err != nil {
				continue
			}
			for _, shard := range shards {
				if owner = c.masterWith(shard, slot); owner != nil {
					return true
				}
			}
		}
		return false
	})
	return owner
}

// masterWith returns the running master in a node's part of the Cluster that has a slot, if there is one.
func (c *Cluster) masterWith(shard redis.ClusterShard, slot int64) *Node {
	if !slices.ContainsFunc(shard.Slots, func(r redis.SlotRange) bool { return slot >= r.Start && slot <= r.End }) {
		return nil
	}
	for _, m := range shard.Nodes {
		for _, n := range c.Nodes {
			if m.Role == "master" && fmt.Sprint(m.Port) == portOf(n.Proxy.Addr()) && !n.Exited() {
				return n
			}
		}
	}
	return nil
}

// Move moves the slot of a key to another node, two keys at a time, as redis-cli's reshard does; between is called after
// each step. The key is the first to move: newer servers list a slot's keys in any order.
func (c *Cluster) Move(key string, to *Node, between func()) {
	c.t.Helper()
	ctx, from := c.t.Context(), c.Owner(key)
	src, dst := from.client, to.client
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
		args := []any{"MIGRATE", "127.0.0.1", portOf(to.Addr()), "", 0, 5000, "KEYS"}
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
			do(n.client, "CLUSTER", "SETSLOT", slot, "NODE", toID)
		}
	}
}
