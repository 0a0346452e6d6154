package test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
)

// TestWaitsAreToldForEachReason: each reason why a job waits is brought about, and told by the API and wakecall get.
func TestWaitsAreToldForEachReason(t *testing.T) {
	t.Parallel()
	r := harness.StartRedis(t, harness.RedisOptions{})
	i := start(t, onRedis(r))
	gate := harness.NewGate()
	t.Cleanup(gate.Open)
	push := func(topic string, n int, fields M) (last string) {
		for k := range n {
			last = fmt.Sprint("job-", k)
			job := M{"id": last, "body": k}
			maps.Copy(job, fields)
			i.MustPush(t, topic, job)
		}
		return last
	}
	put := func(name string, b harness.Behaviour, fields M) string {
		i.put(t, name, b, fields)
		return name
	}
	for reason, c := range map[string]struct {
		topic  string
		jobs   int
		push   M
		then   M // settings of the topic after the push
		number float64
	}{
		"not_due":       {topic: put("later", nil, nil), jobs: 1, push: M{"delay": "1h"}},
		"retry":         {topic: put("failing", harness.Status(500), M{"retry": []string{"1h"}}), jobs: 1},
		"paused":        {topic: put("halted", nil, M{"state": "paused"}), jobs: 1},
		"max_in_flight": {topic: put("narrow", gate.Hold, M{"max_in_flight": 1, "ttr": "5m"}), jobs: 2, number: 1},
		"rate_limit":    {topic: put("slow", nil, M{"rate_limit": 0.01}), jobs: 2, number: 0.01},
		"window":        {topic: put("hanging", gate.Hold, M{"ttr": "5m"}), jobs: 33, number: 32},
		"no_worker":     {topic: i.pullTopic(t, nil), jobs: 1},
		"behind":        {topic: put("queue", gate.Hold, M{"max_in_flight": 1, "ttr": "5m"}), jobs: 5},
		"offline": {topic: put("off", gate.Hold, M{"max_in_flight": 1, "ttr": "5m"}), jobs: 2,
			then: M{"state": "offline"}},
		"breaker_open": {topic: put("dead-end", nil, M{"retry": []string{"10ms"}, "max_attempts": 1000,
			"callback_url": fmt.Sprintf("http://127.0.0.1:%d", freeport.TCP(t))}), jobs: 20},
	} {
		id := push(c.topic, c.jobs, c.push)
		if c.then != nil {
			i.put(t, c.topic, gate.Hold, c.then)
		}
		w := i.waitsFor(t, c.topic, id, reason)
		if w.Limit != c.number {
			t.Errorf("%s: the limit is %g, not %g", reason, w.Limit, c.number)
		}
		timed := slices.Contains([]string{"not_due", "retry", "rate_limit", "breaker_open"}, reason)
		if timed == (w.Until == nil) {
			t.Errorf("%s: until %v", reason, w.Until)
		}
		if reason == "paused" && !strings.HasPrefix(w.By, "token:") {
			t.Errorf("paused by %q", w.By)
		}
	}
	if code, out := i.Run("get", "later", "job-0"); code != 0 || !strings.Contains(out, "not due until ") {
		t.Errorf("wakecall get: %d\n%s", code, out)
	}
	r.Kill9()
	harness.Eventually(t, soon, "the shard to be named", func() error {
		a := i.Do(ctx, http.MethodGet, harness.JobPath("later", "job-0"), nil)
		if a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "redis-1 does not answer") {
			return fmt.Errorf("GET answers %s", a)
		}
		return nil
	})
}

// waitsFor waits until the API says that a job waits for a reason.
func (i *installation) waitsFor(t *testing.T, topic, id, reason string) (w client.Wait) {
	t.Helper()
	c := i.client(t)
	harness.Eventually(t, soon, fmt.Sprintf("%s/%s to wait for %s", topic, id, reason), func() error {
		j, err := c.Get(ctx, topic, id)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(j.Waits, func(w client.Wait) bool { return w.Reason == reason })
		if at < 0 {
			return fmt.Errorf("it is %s and waits for %+v", j.State, j.Waits)
		}
		w = j.Waits[at]
		return nil
	})
	return w
}

// TestJournalSearchOfAllHosts: what happened to a job through two hosts, and is in no shard any more, is found in both
// journals, from either host; a host that is down is named.
func TestJournalSearchOfAllHosts(t *testing.T) {
	t.Parallel()
	opts := onRedis(harness.StartRedis(t, harness.RedisOptions{}))
	opts.Env["WAKECALL_REGISTRY_SEAL_KEY"] = strings.Repeat("5a", 32)
	listening := func(dsn string) harness.Options {
		o := harness.Options{Env: map[string]string{"WAKECALL_SERVER_ADDR": fmt.Sprint("0.0.0.0:", freeport.TCP(t))}}
		maps.Copy(o.Env, opts.Env)
		if dsn != "" {
			o.Env["WAKECALL_REGISTRY_DSN"] = dsn
		}
		return o
	}
	one := start(t, listening(""))
	two := harness.New(t, listening("sqlite:"+one.Data+"/registry.db"))
	two.Up()
	harness.Eventually(t, soon, "the second host to be ready", two.Readyz)
	harness.ShareToken(t, one.Wakecall, two)

	topic := one.topic(t, nil, M{"remember": "0s"})
	one.MustPush(t, topic, M{"id": "order-42", "body": M{"order": 42}})
	one.waitGone(t, topic, "order-42")
	one.MustPush(t, topic, M{"id": "order-43", "body": 1, "delay": "1h"})
	harness.Eventually(t, soon, "the other host to delete a job", func() error {
		a := two.Do(ctx, http.MethodDelete, harness.JobPath(topic, "order-43"), nil)
		return harness.Equal("status", a.Status, http.StatusNoContent)
	})

	second := &installation{two, one.endpoint}
	for _, i := range []*installation{one, second} {
		harness.Eventually(t, soon, "both journals to be searched", func() error {
			return i.knows(t, "order-42", "done", "push", "200")
		})
		if err := i.knows(t, "order-43", "delete", "push", "delete", "token:"); err != nil {
			t.Error(err)
		}
	}
	code, out := one.Run("search", "order-43")
	if code != 0 || !strings.Contains(out, "order-43 of topic "+topic+", deleted") ||
		!strings.Contains(out, "hosts: 2") {
		t.Errorf("wakecall search: %d\n%s", code, out)
	}
	two.Kill9()
	harness.Eventually(t, soon, "the other host to be named as missing", func() error {
		r, err := one.client(t).Search(ctx, "", "order-43", nil)
		if err != nil {
			return err
		}
		for _, h := range r.Hosts {
			if strings.Contains(h.Error, "cannot be asked") {
				return nil
			}
		}
		return fmt.Errorf("the hosts are %+v", r.Hosts)
	})
}

// knows reports whether the journals of both hosts have a job that ended so, with all of these events and texts.
func (i *installation) knows(t *testing.T, id, ended string, texts ...string) error {
	t.Helper()
	r, err := i.client(t).Search(ctx, "", id, nil)
	switch {
	case err != nil:
		return err
	case len(r.Hosts) != 2 || r.Hosts[0].Error+r.Hosts[1].Error != "":
		return fmt.Errorf("searched %+v", r.Hosts)
	case len(r.Jobs) != 1 || r.Jobs[0].Ended != ended:
		return fmt.Errorf("%s: found %+v", id, r.Jobs)
	}
	all := fmt.Sprintf("%+v", r.Jobs[0].Events)
	for _, text := range texts {
		if !strings.Contains(all, text) {
			return fmt.Errorf("%s: the events lack %s: %s", id, text, all)
		}
	}
	return nil
}
