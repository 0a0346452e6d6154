package redistest

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/wait"
)

// TestClientsReachAClusterThroughItsProxies, and a reply that is cut belongs to a command that was executed.
func TestClientsReachAClusterThroughItsProxies(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 0)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Proxy.Addr()}, MaxRedirects: -1})
	defer func() { _ = client.Close() }()
	owner := c.Owner("counted")
	done := owner.CutReply("incr", "counted")
	if err := client.Incr(t.Context(), "counted").Err(); err == nil {
		t.Error("the reply arrived")
	}
	<-done
	if n := owner.Client().Get(t.Context(), "counted").Val(); n != "1" {
		t.Errorf("it was executed %s times", n)
	}
}

// TestAKilledNodeRefusesConnections until it is restarted, at the address that clients know.
func TestAKilledNodeRefusesConnections(t *testing.T) {
	t.Parallel()
	n := StartStandalone(t).Nodes[0]
	client := redis.NewClient(&redis.Options{Addr: n.Proxy.Addr(), MaxRetries: -1, DialTimeout: time.Second})
	defer func() { _ = client.Close() }()
	n.Kill()
	wait.For(t, "a refused connection", func() bool {
		err := client.Ping(t.Context()).Err()
		return err != nil && strings.Contains(err.Error(), "refused")
	})
	n.Restart()
	wait.For(t, "an answer", func() bool { return client.Ping(t.Context()).Err() == nil })
}

// TestTheReplicaOfSentinelsIsPromoted behind the address of its proxy.
func TestTheReplicaOfSentinelsIsPromoted(t *testing.T) {
	t.Parallel()
	s := StartSentinels(t)
	addrs := strings.Split(strings.TrimSuffix(strings.TrimPrefix(s.URL(), "redis+sentinel://"), "/"+masterName), ";")
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: masterName, SentinelAddrs: addrs})
	defer func() { _ = client.Close() }()
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Nodes[0].Kill()
	wait.For(t, "the replica to take over", func() bool { return client.Set(t.Context(), "k", "v", 0).Err() == nil })
	if role := s.Nodes[1].Role(); role != "master" {
		t.Errorf("the replica is %s", role)
	}
}
