package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/wait"
	"github.com/wakecall/wakecall/timer"
)

// commandTimeout is the one of an installation: calls to a node that hangs end after it.
const commandTimeout = 2 * time.Second

// clusterNode is a server of a Cluster.
type clusterNode struct {
	port int
	dir  string
	cmd  *exec.Cmd
}

func (n *clusterNode) addr() string { return fmt.Sprint("127.0.0.1:", n.port) }

func (n *clusterNode) start(t *testing.T) {
	t.Helper()
	n.cmd = exec.Command("redis-server", "--port", fmt.Sprint(n.port), "--dir", n.dir, "--save", "", "--appendonly",
		"yes", "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--bind", "127.0.0.1")
	if err := n.cmd.Start(); err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
}

func (n *clusterNode) kill() { _ = n.cmd.Process.Kill(); _ = n.cmd.Wait() }

// cluster is a Redis Cluster of three masters.
type cluster struct {
	url   string
	nodes []*clusterNode
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{}
	args := []string{"--cluster", "create", "--cluster-yes"}
	for range 3 {
		n := &clusterNode{port: freeport.TCP(t), dir: t.TempDir()}
		n.start(t)
		t.Cleanup(func() { n.kill() })
		client := redis.NewClient(&redis.Options{Addr: n.addr()})
		eventually(t, "redis-server to answer", func() bool { return client.Ping(t.Context()).Err() == nil })
		_ = client.Close()
		c.nodes, args = append(c.nodes, n), append(args, n.addr())
	}
	if out, err := exec.Command("redis-cli", args...).CombinedOutput(); err != nil {
		t.Fatalf("create the cluster: %v\n%s", err, out)
	}
	c.url = "redis+cluster://" + strings.Join(args[3:], ";")
	return c
}

// topics returns a topic of each bucket, by the node that has it.
func (c *cluster) topics(t *testing.T, s *store.Shard) (topics map[*clusterNode][]string) {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].addr()}})
	defer client.Close()
	topics = map[*clusterNode][]string{}
	seen := map[*store.Bucket]bool{}
	for i := 0; len(seen) < len(s.Buckets()); i++ {
		topic := fmt.Sprint("t", i)
		bucket := s.BucketOf(topic)
		if seen[bucket] {
			continue
		}
		seen[bucket] = true
		master, err := client.MasterForKey(t.Context(), bucket.Key(""))
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(c.nodes, func(n *clusterNode) bool { return n.addr() == master.Options().Addr })
		topics[c.nodes[at]] = append(topics[c.nodes[at]], topic)
	}
	return topics
}

// others returns the topics of all nodes but one.
func others(topics map[*clusterNode][]string, but *clusterNode) (list []string) {
	for n, some := range topics {
		if n != but {
			list = append(list, some...)
		}
	}
	return list
}

// long reports whether tests take the time to measure speed, on a machine that does nothing else.
func long() bool { return os.Getenv("WAKECALL_TEST_LONG") != "" }

// keepAsInstalled runs a host's reconciler with the intervals of an installation.
func (h *host) keepAsInstalled(t *testing.T) {
	t.Helper()
	k, err := NewReconciler(ReconcilerOptions{
		Dir: h.dir, Queue: h.queue, Buckets: h.queue.Shards.Buckets, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	h.run(t, k.Run)
}

// run runs a part of a host until the test ends.
func (h *host) run(t *testing.T, part func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := part(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// accepts waits until the host accepts a push of each topic, and returns how long that took.
func (h *host) accepts(t *testing.T, topics []string) time.Duration {
	t.Helper()
	began := time.Now()
	var wg sync.WaitGroup
	for _, topic := range topics {
		wg.Go(func() {
			p := store.Push{Topic: topic, ID: store.NewID(), Body: []byte("1"), Delay: time.Hour}
			for h.queue.Push(t.Context(), p).Err != nil && time.Since(began) < wait.Limit {
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	if took := time.Since(began); took < wait.Limit {
		return took
	}
	t.Fatalf("a topic takes no push after %s", wait.Limit)
	return 0
}

// TestRecoveryOfANodeByTwoHosts: after a node of a Cluster restarts, neither host waits in one bucket for the other,
// which waits for it in another bucket.
func TestRecoveryOfANodeByTwoHosts(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	hosts := []*host{newHostOf(t, c.url, commandTimeout), newHostOf(t, c.url, commandTimeout)}
	for _, h := range hosts {
		h.keepAsInstalled(t)
	}
	all := others(c.topics(t, hosts[0].queue.Shards.All()[0]), nil)
	for _, h := range hosts {
		h.accepts(t, all)
	}
	times, limit := 3, 20*time.Second
	if long() {
		times, limit = 20, 5*time.Second
	}
	var longest time.Duration
	for i := range times {
		n := c.nodes[i%len(c.nodes)]
		n.kill()
		time.Sleep(time.Second)
		n.start(t)
		began := time.Now()
		for _, h := range hosts {
			h.accepts(t, all)
		}
		if took := time.Since(began); took > limit {
			t.Errorf("restart %d: topics took no pushes for %s", i, took)
		} else {
			longest = max(longest, took)
		}
	}
	t.Logf("topics take pushes again after at most %s", longest)
}

// TestRecoveryWhileANodeHangs: the buckets of the other nodes are opened, their jobs are on time, and a host that is
// started meanwhile accepts pushes for them.
func TestRecoveryWhileANodeHangs(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	a := newHostOf(t, c.url, commandTimeout)
	a.keepAsInstalled(t)
	a.advance(t)
	s := a.queue.Shards.All()[0]
	topics := c.topics(t, s)
	a.accepts(t, others(topics, nil))
	startLimit, lateLimit := 20*time.Second, 5*time.Second
	if long() {
		startLimit, lateLimit = 2*time.Second, 200*time.Millisecond
	}
	for _, n := range c.nodes {
		healthy := others(topics, n)
		late := a.lateness(t, healthy, 6*time.Second)
		if err := n.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		b := newHostOf(t, c.url, commandTimeout)
		b.keepAsInstalled(t)
		b.advance(t)
		took := b.accepts(t, healthy)
		p99, most := late()
		t.Logf("a host that is started takes pushes after %s; jobs are %s late (p99), at most %s", took, p99, most)
		if took > startLimit {
			t.Errorf("a host that is started takes no pushes for %s", took)
		}
		if p99 > lateLimit {
			t.Errorf("jobs of the other nodes are %s late (p99), at most %s", p99, most)
		}
		if err := n.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		a.accepts(t, others(topics, nil))
	}
}

// advance runs a timer.
func (h *host) advance(t *testing.T) {
	t.Helper()
	h.run(t, timer.New(timer.Options{Exact: true, Buckets: func() (list []timer.Bucket) {
		for _, b := range h.queue.Shards.Buckets() {
			list = append(list, b)
		}
		return list
	}}).Run)
}

// lateness pushes jobs that fall due in the next time, and reserves them. The function that it returns waits for all of
// them, and returns how late they were reserved.
func (h *host) lateness(t *testing.T, topics []string, in time.Duration) func() (p99, most time.Duration) {
	t.Helper()
	const each = 50
	s := h.queue.Shards.All()[0]
	var mu sync.Mutex
	var late []time.Duration
	var wg sync.WaitGroup
	for _, topic := range topics {
		for i := range each {
			p := store.Push{Topic: topic, ID: store.NewID(), Body: []byte("1"),
				Delay: time.Second + time.Duration(i)*in/each}
			if r := h.queue.Push(t.Context(), p); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		wg.Go(func() {
			for got := 0; got < each && t.Context().Err() == nil; time.Sleep(20 * time.Millisecond) {
				r := store.Reserve{Worker: topic, Token: store.NewID(), Max: each, Pattern: "0102010201"}
				reserved, err := s.BucketOf(topic).Reserve(t.Context(), r)
				if err != nil {
					continue
				}
				var done []store.End
				mu.Lock()
				for _, l := range reserved.Jobs {
					late = append(late, reserved.Now.Sub(l.DueAt))
					done = append(done, store.End{Lease: l.Lease, Verb: store.Done, Endpoint: store.EndpointUp})
				}
				mu.Unlock()
				got += len(reserved.Jobs)
				_, _ = s.BucketOf(topic).End(t.Context(), done)
			}
		})
	}
	return func() (p99, most time.Duration) {
		wg.Wait()
		slices.Sort(late)
		return late[len(late)*99/100], late[len(late)-1]
	}
}
