package harness

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/freeport"
)

// Node is a redis-server of a Cluster or beside Sentinels, or a Sentinel.
type Node struct {
	*daemon
	t    testing.TB
	dir  string
	port int
	args []string
}

// startNode starts a redis-server with a configuration of its own (Sentinel rewrites it).
func startNode(t testing.TB, name, conf string, args ...string) *Node {
	t.Helper()
	n := &Node{t: t, dir: newDir(t, name), port: freeport.Node(t), args: args}
	text := fmt.Sprintf("port %d\ndir %s\nbind 127.0.0.1\nsave \"\"\n%s\n", n.port, n.dir, conf)
	if err := os.WriteFile(filepath.Join(n.dir, "redis.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Restart()
	return n
}

// Restart starts the node again, after Kill9.
func (n *Node) Restart() {
	n.t.Helper()
	cmd := exec.Command(
		need(n.t, "redis-server", "redis-server"),
		append([]string{filepath.Join(n.dir, "redis.conf")}, n.args...)...)
	cmd.Dir = n.dir
	n.daemon = startDaemon(n.t, n.dir, filepath.Base(n.dir), cmd)
	Eventually(n.t, Patience, "redis-server to answer", func() error {
		conn, err := net.DialTimeout("tcp", n.Addr(), time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// Addr returns the address on which the node listens.
func (n *Node) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

// Client returns a client of this node alone.
func (n *Node) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: n.Addr(), MaxRetries: -1})
	n.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Role returns master or slave, or an error as text.
func (n *Node) Role() string {
	c := redis.NewClient(&redis.Options{Addr: n.Addr(), MaxRetries: -1})
	defer c.Close()
	v, err := c.Do(n.t.Context(), "ROLE").Slice()
	if err != nil || len(v) == 0 {
		return fmt.Sprint(err)
	}
	return fmt.Sprint(v[0])
}

const durable = "appendonly yes\nappendfsync everysec"

// Sentinels are a master, a replica, and three Sentinels that watch them.
type Sentinels struct {
	Servers  []*Node
	Watchers []*Node
}

// StartSentinels starts them and waits until the replica follows and the Sentinels know each other.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{}
	master := startNode(t, "master", durable)
	replica := startNode(t, "replica", durable+fmt.Sprintf("\nreplicaof 127.0.0.1 %d", master.port))
	s.Servers = []*Node{master, replica}
	Eventually(t, Patience, "the replica to follow", func() error {
		info, err := replica.Client().Info(t.Context(), "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = fmt.Errorf("it answers %s", info)
		}
		return err
	})
	for range 3 {
		s.Watchers = append(s.Watchers, startNode(t, "sentinel", fmt.Sprintf("sentinel monitor mymaster 127.0.0.1 %d 2\n"+
			"sentinel down-after-milliseconds mymaster 3000\nsentinel failover-timeout mymaster 4000", master.port),
			"--sentinel"))
	}
	for _, w := range s.Watchers {
		c := redis.NewSentinelClient(&redis.Options{Addr: w.Addr()})
		t.Cleanup(func() { _ = c.Close() })
		Eventually(t, Patience, "the Sentinels to know each other and the replica", func() error {
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
func (s *Sentinels) URL() string {
	var addrs []string
	for _, w := range s.Watchers {
		addrs = append(addrs, w.Addr())
	}
	return "redis+sentinel://" + strings.Join(addrs, ";") + "/mymaster"
}

// Cluster is a Redis Cluster of three masters with a replica each.
type Cluster struct {
	t     testing.TB
	Nodes []*Node
}

// StartCluster starts six nodes, joins them to a Cluster, and waits until all agree.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	args := []string{"--cluster", "create"}
	for range 6 {
		n := startNode(
			t,
			"node",
			durable+"\ncluster-enabled yes\ncluster-node-timeout 5000\ncluster-require-full-coverage no",
		)
		c.Nodes = append(c.Nodes, n)
		args = append(args, n.Addr())
	}
	out, err := exec.Command(need(t, "redis-cli", "redis-tools"),
		append(args, "--cluster-replicas", "1", "--cluster-yes")...).
		CombinedOutput()
	if err != nil {
		t.Fatalf("create the Cluster: %v\n%s", err, out)
	}
	for _, n := range c.Nodes {
		Eventually(t, Patience, "the Cluster's nodes to agree, and replicas to follow", func() error {
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
func (c *Cluster) URL() string {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr())
	}
	return "redis+cluster://" + strings.Join(addrs, ";")
}

// Owner returns the master that has a key's slot, according to the first running node.
func (c *Cluster) Owner(key string) *Node {
	c.t.Helper()
	var owner *Node
	Eventually(c.t, Patience, "a master to have "+key, func() error {
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
func (c *Cluster) masterWith(shard redis.ClusterShard, slot int64) *Node {
	if !slices.ContainsFunc(shard.Slots, func(r redis.SlotRange) bool { return slot >= r.Start && slot <= r.End }) {
		return nil
	}
	for _, m := range shard.Nodes {
		for _, n := range c.Nodes {
			if m.Role == "master" && m.Port == int64(n.port) && !n.Exited() {
				return n
			}
		}
	}
	return nil
}

// Move moves the slot of a key to another node, two keys at a time, as redis-cli's reshard does; between is called when
// half of it is moved.
func (c *Cluster) Move(key string, to *Node, between func()) {
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
	for {
		between()
		keys, err := src.ClusterGetKeysInSlot(ctx, int(slot), 2).Result()
		if err != nil {
			c.t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		args := []any{"MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS"}
		for _, k := range keys {
			args = append(args, k)
		}
		do(src, args...)
	}
	do(dst, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	do(src, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	for _, n := range c.Nodes {
		if n != from && n != to && n.Role() == "master" {
			do(n.Client(), "CLUSTER", "SETSLOT", slot, "NODE", toID)
		}
	}
}
