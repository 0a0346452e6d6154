package redistest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/test/wait"
)

// Sentinels are a master, a replica, and three Sentinels that watch them.
type Sentinels struct{ *Deployment }

// masterName is the name under which the Sentinels know the master.
const masterName = "mymaster"

// StartSentinels starts them and waits until the replica follows and the Sentinels know each other.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{&Deployment{Kind: "sentinel"}}
	announced := func(_, proxy string) []string {
		return []string{"--replica-announce-ip", "127.0.0.1", "--replica-announce-port", proxy}
	}
	master, replica := startNode(t, announced), startNode(t, announced)
	s.Nodes = []*Node{master, replica}
	if err := replica.FollowAt(t.Context(), portOf(master.Proxy.Addr())); err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for range 3 {
		w := Start(t, Options{Sentinel: fmt.Sprintf("sentinel monitor %s 127.0.0.1 %s 2\n"+
			"sentinel down-after-milliseconds %[1]s 3000\nsentinel failover-timeout %[1]s 4000\n",
			masterName, portOf(master.Proxy.Addr()))})
		s.Sentinels, addrs = append(s.Sentinels, w), append(addrs, w.Addr())
	}
	s.URLs = []string{"redis+sentinel://" + strings.Join(addrs, ";") + "/" + masterName}
	for _, w := range s.Sentinels {
		c := redis.NewSentinelClient(&redis.Options{Addr: w.Addr()})
		t.Cleanup(func() { _ = c.Close() })
		wait.For(t, "the Sentinels to know each other and the replica", func() bool {
			others, err := c.Sentinels(t.Context(), masterName).Result()
			if err != nil {
				return false
			}
			replicas, err := c.Replicas(t.Context(), masterName).Result()
			return err == nil && len(others) == 2 && len(replicas) == 1
		})
	}
	return s
}
