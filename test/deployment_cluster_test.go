package test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/redistest"
)

// acrossCluster registers topics of all nodes of a Cluster and returns their names.
func (i *installation) acrossCluster(t *testing.T) (names []string) {
	t.Helper()
	for n := range clusterTopics {
		names = append(names, fmt.Sprint("across-", n))
		i.put(t, names[n], nil, nil)
	}
	return names
}

// onNode returns those of the topics that a node of a Cluster has; each gets a job that is due tomorrow.
func (i *installation) onNode(t *testing.T, n *redistest.Node, topics []string) (its, others []string) {
	t.Helper()
	due := plan{topics, time.Now().Add(24 * time.Hour), time.Millisecond, len(topics)}.push(t, i.Quick(), "far")
	for key := range storedOn(t, n, due) {
		its = append(its, key.Topic)
	}
	others = slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return slices.Contains(its, topic) })
	if len(others) == 0 {
		t.Fatal("one node has all topics")
	}
	return its, others
}

// TestDeploymentClusterOneMasterStopped: one of three masters hangs. The jobs of the others are called on time.
func TestDeploymentClusterOneMasterStopped(t *testing.T) {
	needProcesses(t)
	d := redistest.StartMasters(t)
	i := start(t, on(d))
	topics := i.acrossCluster(t)
	hangs, try := d.Nodes[1], 0
	_, others := i.onNode(t, hangs, topics)
	i.passes(t)
	harness.OneOf(t, "one master hangs, the jobs of the others are called", func() error {
		try++
		i.waitTaking(t, topics, i.API)
		first := time.Now().Add(3 * time.Second)
		fails := first.Add(3 * time.Second)
		until := fails.Add(harness.Sample(60*time.Second, 10*time.Second))
		const every = 25 * time.Millisecond
		due := plan{others, first, every, int(until.Sub(first) / every)}.push(t, i.Quick(), fmt.Sprint(try))
		sleepUntil(fails)
		hangs.Stop()
		sleepUntil(until)
		before := window{first, fails.Add(-time.Second)}.in(due, i.calls())
		after := window{fails, until.Add(-time.Second)}.in(due, i.calls())
		hangs.Continue()
		t.Logf("before: %s; while one master hangs: %s", before, after)
		return atMost("lateness, p99", after.percentile(0.99), harness.Sample(200*time.Millisecond, 2*time.Second))
	})
}

// takes pushes a job to a topic, and reports an error if it is not accepted.
func takes(api *harness.API, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	answer := api.Push(ctx, topic, M{"body": 1, "delay": "1h"})
	if answer.Err == nil && answer.Status >= 300 {
		return fmt.Errorf("a push to %s is answered %s", topic, answer)
	}
	return answer.Err
}

// waitTaking waits until all topics have accepted a push through each host, and returns how long that took.
func (i *installation) waitTaking(t *testing.T, topics []string, hosts ...*harness.API) time.Duration {
	t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for _, api := range hosts {
		api := api.Quick()
		for _, topic := range topics {
			all.Go(func() {
				for deadline := began.Add(soon); ; time.Sleep(20 * time.Millisecond) {
					err := takes(api, topic)
					if err == nil {
						return
					}
					if time.Now().After(deadline) {
						t.Errorf("after %s: %v", soon, err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return time.Since(began)
}

// TestDeploymentClusterTwoHostsMasterBack: a master is killed, and back after a second, again and again. All topics take
// requests through both hosts within five seconds.
func TestDeploymentClusterTwoHostsMasterBack(t *testing.T) {
	needProcesses(t)
	onServerOfTheDay(t, masterBack)
}

func masterBack(t *testing.T, db dbtest.Stoppable) {
	d := redistest.StartMasters(t)
	opts := on(d, "WAKECALL_REGISTRY_DSN="+db.DSN("wakecall"))
	one, two := harness.New(t, opts), harness.New(t, opts)
	i := &installation{one, harness.StartEndpoint(t)}
	for _, host := range []*harness.Wakecall{one, two} {
		host.Up()
		harness.Eventually(t, soon, "the host to be ready", host.Readyz)
	}
	harness.ShareToken(t, one, two)
	topics := i.acrossCluster(t)
	i.waitTaking(t, topics, one.API, two.API)
	var took []time.Duration
	for n := range harness.Sample(20, 2) {
		victim := d.Nodes[n%len(d.Nodes)]
		victim.Kill()
		time.Sleep(time.Second) // the fault lasts as long
		victim.Restart()
		took = append(took, i.waitTaking(t, topics, one.API, two.API))
	}
	slices.Sort(took)
	t.Logf("all topics take requests again after %v", took)
	if err := atMost("until all topics take requests", took[len(took)-1],
		harness.Sample(5*time.Second, 5*time.Second+busy)); err != nil {
		t.Error(err)
	}
}

// TestDeploymentClusterHostStartsWhileANodeHangs: a host that is started while one master hangs takes pushes to the
// topics of the others within two seconds.
func TestDeploymentClusterHostStartsWhileANodeHangs(t *testing.T) {
	needProcesses(t)
	d := redistest.StartMasters(t)
	i := start(t, on(d))
	topics := i.acrossCluster(t)
	hangs := d.Nodes[2]
	_, others := i.onNode(t, hangs, topics)
	harness.OneOf(t, "a host starts while a master hangs", func() error {
		i.waitTaking(t, topics, i.API)
		i.Kill9()
		i.waitNoProcess(t)
		hangs.Stop()
		defer hangs.Continue()
		i.Up()
		harness.Eventually(t, soon, "the server to answer", func() error {
			return harness.Equal("status", i.Do(ctx, http.MethodGet, "/healthz", nil).Status, http.StatusOK)
		})
		took := i.waitTaking(t, others, i.API)
		t.Logf("it takes pushes to %d of %d topics %s after its first answer", len(others), len(topics), took)
		return atMost("until it takes pushes", took, harness.Sample(2*time.Second, 10*time.Second))
	})
}

// waitNoProcess waits until no process of the installation runs, after its master was killed.
func (i *installation) waitNoProcess(t *testing.T) {
	t.Helper()
	harness.Eventually(t, soon, "the processes of a killed master to end", func() error {
		return harness.Equal("processes", len(i.Children()), 0)
	})
}
