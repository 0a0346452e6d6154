package test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/redistest"
)

func onURL(url string) harness.Options {
	return harness.Options{Env: map[string]string{"WAKECALL_REDIS_NODES": url}}
}

// only503 fails for an answer that exposes internals of a deployment to a client.
func (a *answers) only503(t *testing.T) {
	t.Helper()
	a.all(t, http.StatusServiceUnavailable)
}

// TestSentinelFailoverUnderLoad: the master is killed, and the replica takes over. No acknowledged job is lost, even if
// the replica had not received it yet.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	s := redistest.StartSentinels(t)
	i := start(t, onURL(s.URL()))
	topic, pulled := i.topic(t, nil, M{"retry": []string{"100ms"}, "ttr": "5s"}), i.pullTopic(t, M{"ttr": "10s"})
	i.work(t, pulled)
	ledger, refused := harness.NewLedger(), &answers{}
	load := func(topic string) *harness.Load {
		return harness.StartLoad(t, i.Quick(), ledger,
			harness.LoadOptions{Topic: topic, Rate: 50, Pushers: 8, Fields: M{"delay": "300ms"},
				PushFailed: refused.add})
	}
	pushing, pulling := load(topic), load(pulled)
	ledger.WaitAcknowledged(t, 200)
	s.Nodes[0].Kill()
	killed := time.Now()
	harness.Eventually(t, soon, "the replica to be promoted",
		func() error { return harness.Equal("role", s.Nodes[1].Role(), "master") })
	promoted := time.Now()
	ledger.WaitAcknowledged(t, 50)
	i.calledSince(t, topic, promoted)
	i.calledSince(t, pulled, promoted)
	t.Logf("promoted after %s, pushes and calls again %s later", promoted.Sub(killed).Round(time.Millisecond),
		time.Since(promoted).Round(time.Millisecond))
	s.Nodes[0].Restart() // as a replica
	ledger.WaitAcknowledged(t, 100)
	pushing.Stop()
	pulling.Stop()
	refused.only503(t)
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

// calledSince waits for a call that arrived after the given time.
func (i *installation) calledSince(t *testing.T, topic string, since time.Time) {
	t.Helper()
	harness.Eventually(t, soon, "a call of "+topic, func() error {
		calls := i.endpoint.Calls(topic)
		if len(calls) == 0 || calls[len(calls)-1].At.Before(since) {
			return errors.New("there was none")
		}
		return nil
	})
}

// clusterTopics is enough for every master of a Cluster to have some topics.
const clusterTopics = 24

// spread registers topics in all buckets of a Cluster, with these durabilities in turn, and pushes to each. Every third
// is a pull topic; one worker does the jobs of all of these.
func (i *installation) spread(
	t *testing.T, ledger *harness.Ledger, refused *answers, durabilities ...string,
) (stop func()) {
	t.Helper()
	var loads []*harness.Load
	var pulled []string
	for n := range clusterTopics {
		topic, fields := fmt.Sprintf("t%d", n),
			M{"retry": []string{"100ms"}, "durability": durabilities[n%len(durabilities)]}
		if n%3 == 0 {
			fields["delivery"], fields["ttr"] = "pull", "10s"
			pulled = append(pulled, topic)
		} else {
			fields["ttr"] = "2s"
		}
		harness.Eventually(t, soon, "all masters to have a replica, so that the topic is accepted", func() error {
			fields["callback_url"] = i.endpoint.URL("/" + topic)
			if answer := i.Do(ctx, http.MethodPut, "/v1/topics/"+topic, fields); answer.Err != nil ||
				answer.Status >= 300 {
				return errors.New(answer.String())
			}
			return nil
		})
		loads = append(loads, harness.StartLoad(t, i.Quick(), ledger,
			harness.LoadOptions{Topic: topic, Rate: 5, Pushers: 1, Fields: M{"delay": "300ms"},
				PushFailed: refused.add}))
	}
	i.work(t, pulled...)
	return func() {
		for _, l := range loads {
			l.Stop()
		}
	}
}

// TestClusterFailoverUnderLoad: a master is killed, and its replica takes over.
func TestClusterFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	c := redistest.StartCluster(t, 1)
	i := start(t, onURL(c.URL()))
	ledger, refused := harness.NewLedger(), &answers{}
	stop := i.spread(t, ledger, refused, "memory", "replica")
	ledger.WaitAcknowledged(t, 200)
	victim := c.Owner("wk:{3}:")
	victim.Kill()
	killed := time.Now()
	heir := c.Owner("wk:{3}:")
	promoted := time.Now()
	ledger.WaitAcknowledged(t, 100)
	t.Logf("%s took over after %s; pushes again %s later", heir.Addr(), promoted.Sub(killed).Round(time.Millisecond),
		time.Since(promoted).Round(time.Millisecond))
	victim.Restart()
	ledger.WaitAcknowledged(t, 100)
	stop()
	refused.only503(t)
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

// TestClusterSlotsMoveUnderLoad: the slots of all buckets of a master move to another one, key by key. Pushes to them
// are refused meanwhile, and no job is lost or mixed up.
func TestClusterSlotsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	c := redistest.StartCluster(t, 1)
	i := start(t, onURL(c.URL()))
	ledger, refused := harness.NewLedger(), &answers{}
	stop := i.spread(t, ledger, refused, "memory", "replica")
	ledger.WaitAcknowledged(t, 200)
	from := c.Owner("wk:{0}:")
	var to *redistest.Node
	for b := range 16 {
		if n := c.Owner(fmt.Sprintf("wk:{%d}:", b)); n != from {
			to = n
		}
	}
	moved := 0
	for b := range 16 {
		if key := fmt.Sprintf("wk:{%d}:", b); c.Owner(key) == from {
			c.Move(key, to, func() { ledger.WaitAcknowledged(t, 5) }) // judged by the buckets that stay
			moved++
		}
	}
	t.Logf("moved %d buckets", moved)
	ledger.WaitAcknowledged(t, 200)
	stop()
	refused.only503(t)
	// A settlement is refused while its bucket's keys are on both masters; on a busy machine its lease may expire
	// meanwhile, and so may a worker's.
	ledger.Verdict(t, i.API, i.endpoint, moved+inFlight)
}

// TestClusterMasterLostWithoutAReplica: the topics of that master wait, the others continue; when it is back, its jobs
// are called.
func TestClusterMasterLostWithoutAReplica(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	c := redistest.StartCluster(t, 1)
	i := start(t, onURL(c.URL()))
	ledger, refused := harness.NewLedger(), &answers{}
	stop := i.spread(t, ledger, refused, "memory")
	ledger.WaitAcknowledged(t, 200)
	for _, n := range c.Nodes {
		if n.Role() == "slave" {
			n.Kill()
		}
	}
	victim := c.Owner("wk:{3}:")
	victim.Kill()
	gone := time.Now()
	ledger.WaitAcknowledged(t, 100)
	called := 0
	for n := range clusterTopics {
		calls := i.endpoint.Calls(fmt.Sprintf("t%d", n))
		if len(calls) > 0 && calls[len(calls)-1].At.After(gone.Add(500*time.Millisecond)) {
			called++
		}
	}
	if called == 0 || called == clusterTopics {
		t.Errorf("%d of %d topics were called without one of three masters", called, clusterTopics)
	}
	victim.Restart()
	ledger.WaitAcknowledged(t, 200)
	stop()
	refused.only503(t)
	ledger.Verdict(t, i.API, i.endpoint, inFlight)
}

// TestAShardIsAddedDrainedAndDeletedUnderLoad from the command line. Jobs that are due in an hour are moved, too; none
// is lost, none is called twice.
func TestAShardIsAddedDrainedAndDeletedUnderLoad(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	old, fresh := harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onURL(old.URL()))
	topic := i.topic(t, nil, M{"retry": []string{"100ms"}, "ttr": "1m"})
	i.put(t, "later", nil, nil)
	for n := range 300 {
		i.MustPush(t, "later", M{"id": fmt.Sprint(n), "body": n, "delay": "1h"})
	}
	ledger, refused := harness.NewLedger(), &answers{}
	far := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic, Rate: 100, Pushers: 8, Fields: M{"delay": "15s"},
			PushFailed: refused.add})
	near := harness.StartLoad(t, i.Quick(), ledger,
		harness.LoadOptions{Topic: topic, Rate: 100, Pushers: 8, Fields: M{"delay": "300ms"},
			PushFailed: refused.add})
	ledger.WaitAcknowledged(t, 500)
	run := func(says string, args ...string) {
		t.Helper()
		if code, output := i.Run(append([]string{"shard"}, args...)...); code != 0 || !strings.Contains(output, says) {
			t.Fatalf("shard %v exits %d: %s", args, code, output)
		}
	}
	run("saved", "add", "fresh", "--url", fresh.URL())
	harness.Eventually(t, soon, "the new shard to take jobs", func() error { // it opens when the hosts have compared it
		if n := fmt.Sprint(fresh.Do("SCARD", "wk:{0}:topics")); n == "0" {
			return errors.New("it has none")
		}
		return nil
	})
	ledger.WaitAcknowledged(t, 200)
	begun := time.Now()
	run("is empty", "drain", "redis-1")
	t.Logf("drained in %s", time.Since(begun).Round(time.Millisecond))
	run("removed", "delete", "redis-1")
	old.Kill9()
	ledger.WaitAcknowledged(t, 200)
	far.Stop()
	near.Stop()
	if len(refused.got) > 0 {
		t.Errorf("%d pushes failed, the first with %s", len(refused.got), refused.got[0])
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
	for n := range 300 {
		i.waitState(t, "later", fmt.Sprint(n), "delayed")
	}
}
