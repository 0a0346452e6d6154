package redistest

import (
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/harness/proxy"
)

// Node is a server of a deployment. All clients reach it through a proxy.
type Node struct {
	*Server
	Proxy *proxy.Proxy
}

// startNode starts a server behind a proxy, with further arguments for the ports of the two.
func startNode(t testing.TB, args func(port, proxy string) []string) *Node {
	t.Helper()
	n := &Node{Proxy: proxy.Start(t, "")}
	port := freePort(t)
	n.Server = Start(t, Options{Port: port, Args: append(args(port, portOf(n.Proxy.Addr())),
		"--auto-aof-rewrite-percentage", "0", "--repl-diskless-sync-delay", "0")}) // a test may copy the file
	n.Proxy.SetTarget(n.Addr())
	return n
}

// ClientURL returns the node's URL for redis.nodes.
func (n *Node) ClientURL() string { return "redis://" + n.Proxy.Addr() + "/0" }

// CutReply makes the next reply to a request that contains all of the words get lost, with its connection. The channel
// that it returns is closed then.
func (n *Node) CutReply(words ...string) (done <-chan struct{}) {
	return n.Proxy.CutReply(func(request []byte) bool {
		for _, word := range words {
			if !strings.Contains(string(request), word) {
				return false
			}
		}
		return len(request) > 0
	})
}

// Stop stops the server with SIGSTOP: it hangs, connections stay open. It continues at the latest at the test's end.
func (n *Node) Stop() { n.t.Helper(); n.Pause() }

// Continue ends Stop.
func (n *Node) Continue() { n.t.Helper(); n.Resume() }

// Kill kills the server with SIGKILL: connections are closed, new ones refused.
func (n *Node) Kill() {
	n.t.Helper()
	n.Proxy.Refuse()
	n.Kill9()
}

// Restart starts the server again.
func (n *Node) Restart() {
	n.t.Helper()
	n.Server.Restart()
	if err := n.Proxy.Accept(); err != nil {
		n.t.Fatal(err)
	}
}

// Deployment is what redis.nodes names: one or several shards, of which each is a server, a Cluster, or watched by
// Sentinels.
type Deployment struct {
	Kind  string
	URLs  []string // of the shards, for redis.nodes
	Nodes []*Node  // those that have jobs; with Sentinel, the first is the master at the start, the others its replicas
	// Sentinels watch the nodes, if the kind has any.
	Sentinels []*Server
}

// URL returns the shards for redis.nodes.
func (d *Deployment) URL() string { return strings.Join(d.URLs, ",") }

// Heal ends all faults of the network, and continues all servers.
func (d *Deployment) Heal() {
	for _, n := range d.Nodes {
		n.Proxy.KeepReplies()
		n.Proxy.Heal()
		_ = process.Signal(syscall.SIGCONT, n.PID())
	}
}

// Kinds are the kinds of deployments by name.
var Kinds = map[string]func(testing.TB) *Deployment{
	"standalone": StartStandalone,
	"shards":     StartShards,
	"cluster":    StartMasters,
	"sentinel":   func(t testing.TB) *Deployment { return StartSentinels(t).Deployment },
}

// StartStandalone starts one server.
func StartStandalone(t testing.TB) *Deployment { t.Helper(); return startServers(t, "standalone", 1) }

// StartShards starts two servers, which are a shard each.
func StartShards(t testing.TB) *Deployment { t.Helper(); return startServers(t, "shards", 2) }

func startServers(t testing.TB, kind string, count int) *Deployment {
	t.Helper()
	d := &Deployment{Kind: kind}
	for range count {
		n := startNode(t, func(string, string) []string { return nil })
		d.Nodes, d.URLs = append(d.Nodes, n), append(d.URLs, n.ClientURL())
	}
	return d
}

// StartMasters starts a Cluster of three masters without replicas.
func StartMasters(t testing.TB) *Deployment { t.Helper(); return StartCluster(t, 0).Deployment }
