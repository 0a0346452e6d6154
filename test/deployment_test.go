package test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/redistest"
)

// The tests of deployments say what one server that is down, or hangs, does to the jobs of the others: nothing. Each has
// the limit that the documents promise, for a long run, and a generous one for a sample on a busy machine.

// fault is how a node fails, and how that ends.
type fault struct{ begin, end func(*redistest.Node) }

var (
	killed  = fault{(*redistest.Node).Kill, (*redistest.Node).Restart}
	stopped = fault{(*redistest.Node).Stop, (*redistest.Node).Continue}
)

// on configures an installation for a deployment.
func on(d *redistest.Deployment, env ...string) harness.Options {
	opts := onURL(d.URL())
	for _, pair := range env {
		key, value, _ := strings.Cut(pair, "=")
		opts.Env[key] = value
	}
	return opts
}

// plan are jobs that are due one after the other.
type plan struct {
	topics []string
	first  time.Time
	every  time.Duration
	count  int
}

// push pushes the jobs, of the topics in turn, and returns the due time of each by its topic and id.
func (p plan) push(t *testing.T, api *harness.API, prefix string) map[harness.Key]time.Time {
	t.Helper()
	due := map[harness.Key]time.Time{}
	for n := 0; n < p.count; {
		var jobs []M
		for ; n < p.count && len(jobs) < 100; n++ {
			key := harness.Key{Topic: p.topics[n%len(p.topics)], ID: fmt.Sprint(prefix, "-", n)}
			due[key] = p.first.Add(time.Duration(n) * p.every).Truncate(time.Millisecond)
			jobs = append(jobs, M{"topic": key.Topic, "id": key.ID, "body": n, "due_at": due[key].UnixMilli()})
		}
		answer := api.MustDo(t, http.StatusOK, http.MethodPost, "/v1/jobs", M{"jobs": jobs})
		var body struct{ Results []harness.Result }
		if err := answer.JSON(&body); err != nil {
			t.Fatal(err)
		}
		for _, r := range body.Results {
			if r.Error != nil {
				t.Fatalf("push a job that falls due later: %+v", r.Error)
			}
		}
	}
	return due
}

// storedOn returns which of the jobs are stored on a node.
func storedOn(t *testing.T, n *redistest.Node, jobs map[harness.Key]time.Time) map[harness.Key]time.Time {
	t.Helper()
	found := map[harness.Key]time.Time{}
	records := n.Client().Keys(ctx, "wk:*:j:*").Val()
	for _, key := range records {
		_, topic, _ := strings.Cut(key, ":j:")
		for _, id := range n.Client().HKeys(ctx, key).Val() {
			k := harness.Key{Topic: topic, ID: id}
			if at, ok := jobs[k]; ok {
				found[k] = at
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("%s has none of %d jobs", n.Addr(), len(jobs))
	}
	return found
}

// window is a time in which jobs fall due.
type window struct{ from, to time.Time }

// punctuality is what happened to the jobs that fell due in a window.
type punctuality struct {
	due, done int // done: until the window ended
	late      []time.Duration
}

// in judges when jobs were done, by the times of due and done.
func (w window) in(due, done map[harness.Key]time.Time) (p punctuality) {
	for key, at := range due {
		if at.Before(w.from) || !at.Before(w.to) {
			continue
		}
		p.due++
		end, ok := done[key]
		if !ok {
			end = time.Now()
		}
		if ok && end.Before(w.to.Add(time.Second)) {
			p.done++
		}
		p.late = append(p.late, end.Sub(at))
	}
	slices.Sort(p.late)
	return p
}

func (p punctuality) share() float64 { return float64(p.done) / float64(max(p.due, 1)) }

// percentile returns the lateness of that share of the jobs.
func (p punctuality) percentile(share float64) time.Duration {
	if len(p.late) == 0 {
		return 0
	}
	return p.late[min(len(p.late)-1, int(share*float64(len(p.late))))]
}

func (p punctuality) String() string {
	return fmt.Sprintf("%d of %d done, late by p50 %s, p99 %s, at most %s", p.done, p.due,
		p.percentile(0.5).Round(time.Millisecond), p.percentile(0.99).Round(time.Millisecond),
		p.percentile(1).Round(time.Millisecond))
}

// calls returns when each job was called first.
func (i *installation) calls() map[harness.Key]time.Time {
	first := map[harness.Key]time.Time{}
	for _, c := range i.endpoint.Calls("") {
		if _, ok := first[c.Key]; !ok {
			first[c.Key] = c.At
		}
	}
	return first
}

// waitShardsUp waits until the installation reaches all shards.
func (i *installation) waitShardsUp(t *testing.T) {
	t.Helper()
	harness.Eventually(t, soon, "all shards to be up", func() error {
		var body struct{ Shards []client.Shard }
		if err := i.Do(ctx, http.MethodGet, "/v1/shards", nil).JSON(&body); err != nil {
			return err
		}
		for _, s := range body.Shards {
			if !s.Up {
				return fmt.Errorf("%s is down", s.Name)
			}
		}
		return nil
	})
}

// sleepUntil waits for a time at which the test does something.
func sleepUntil(at time.Time) { time.Sleep(time.Until(at)) }

func TestDeploymentTwoShardsOneKilled(t *testing.T)  { oneShardFails(t, killed) }
func TestDeploymentTwoShardsOneStopped(t *testing.T) { oneShardFails(t, stopped) }

// oneShardFails: one of two shards fails while its calls hold all of the dispatcher's places. The other's jobs are
// called as before, and on time.
func oneShardFails(t *testing.T, f fault) {
	needProcesses(t)
	const places = 4
	d := redistest.StartShards(t)
	i := start(t, on(d, "WAKECALL_DISPATCHERS=1", fmt.Sprint("WAKECALL_DISPATCHER_CONCURRENCY=", places)))
	i.put(t, "prompt", harness.Slow(20*time.Millisecond), nil)
	i.put(t, "held", harness.Slow(500*time.Millisecond), nil)
	i.passes(t)
	healthy, failing, try := d.Nodes[0], d.Nodes[1], 0
	harness.OneOf(t, "one shard fails, the other's jobs are called", func() error {
		try++
		i.waitShardsUp(t)
		harness.Eventually(t, soon, "no job to be left", func() error { return i.Drained(ctx, "prompt", "held") })
		during := harness.Sample(40*time.Second, 10*time.Second)
		first := time.Now().Add(3 * time.Second)
		fails := first.Add(6 * time.Second)
		until := fails.Add(time.Second + during)
		const every = 25 * time.Millisecond
		all := plan{[]string{"prompt"}, first, every, int(until.Sub(first) / every)}.push(t, i.Quick(), fmt.Sprint(try))
		due := storedOn(t, healthy, all)
		held := plan{[]string{"held"}, fails.Add(-200 * time.Millisecond), time.Millisecond, 8 * places}.
			push(t, i.Quick(), fmt.Sprint("held-", try))
		for key := range storedOn(t, healthy, held) {
			i.MustDo(t, http.StatusNoContent, http.MethodDelete, harness.JobPath(key.Topic, key.ID), nil)
		}
		sleepUntil(fails)
		f.begin(failing)
		sleepUntil(until)
		before := window{first, fails.Add(-time.Second)}.in(due, i.calls())
		after := window{fails.Add(time.Second), until.Add(-time.Second)}.in(due, i.calls())
		f.end(failing)
		t.Logf("before: %s; while one shard is down: %s", before, after)
		return errors.Join(
			atLeast("share of the calls", after.share()/before.share(), harness.Sample(0.9, 0.5)),
			atMost("lateness, p99", after.percentile(0.99), harness.Sample(100*time.Millisecond, 2*time.Second)))
	})
}

func atLeast(what string, got, want float64) error {
	if got < want {
		return fmt.Errorf("%s: %.2f, want at least %.2f", what, got, want)
	}
	return nil
}

func atMost(what string, got, want time.Duration) error {
	if got > want {
		return fmt.Errorf("%s: %s, want at most %s", what, got.Round(time.Millisecond), want)
	}
	return nil
}

// TestDeploymentPullWorkersOneShardStopped: workers that wait for a pull topic of two shards get the jobs of the one
// that answers within 200 ms after these fall due.
func TestDeploymentPullWorkersOneShardStopped(t *testing.T) {
	needProcesses(t)
	d := redistest.StartShards(t)
	i := start(t, on(d))
	topic := i.pullTopic(t, M{"ttr": "10m"})
	healthy, failing, try := d.Nodes[0], d.Nodes[1], 0
	harness.OneOf(t, "one shard hangs, the other's jobs are reserved", func() error {
		try++
		i.waitShardsUp(t)
		first := time.Now().Add(2 * time.Second)
		fails := first.Add(3 * time.Second)
		until := fails.Add(harness.Sample(30*time.Second, 10*time.Second))
		const every = 25 * time.Millisecond
		all := plan{[]string{topic}, first, every, int(until.Sub(first) / every)}.push(t, i.Quick(), fmt.Sprint(try))
		due := storedOn(t, healthy, all)
		reserved := newTimes()
		workers := harness.StartClients(t, 8, 0, func(n int) harness.Client { return i.reserver(topic, n, reserved) })
		sleepUntil(fails)
		failing.Stop()
		sleepUntil(until)
		before := window{first, fails.Add(-time.Second)}.in(due, reserved.all())
		after := window{fails, until.Add(-time.Second)}.in(due, reserved.all())
		failing.Continue()
		workers.Stop()
		t.Logf("before: %s; while one shard hangs: %s", before, after)
		return errors.Join(
			atLeast("share of the jobs", after.share(), harness.Sample(1, 0.9)),
			atMost("reserved late", after.percentile(1), harness.Sample(200*time.Millisecond, 2*time.Second)))
	})
}

// reserver is a worker that waits up to half a second for a job, and notes when it got it.
func (i *installation) reserver(topic string, n int, reserved *times) harness.Client {
	api, waits := i.Quick(), fmt.Sprintf("%dms", n*500/7)
	return func(ctx context.Context) error {
		var got struct{ Jobs []client.LeasedJob }
		answer := api.Do(ctx, http.MethodPost, "/v1/reserve", M{"topics": []string{topic}, "max": 1, "wait": waits})
		if answer.Status != http.StatusOK || answer.JSON(&got) != nil || len(got.Jobs) == 0 {
			select { // not in a tight loop: the shard that answers may have nothing
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			return nil
		}
		for _, j := range got.Jobs {
			reserved.note(harness.Key{Topic: j.Topic, ID: j.ID})
		}
		return nil
	}
}
