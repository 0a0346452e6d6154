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

// TestDurability: a push that is answered 2xx has the durability of its topic; one that does not reach it in time is
// answered with an error, and can be repeated.
func TestDurability(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	master := harness.StartRedis(t, harness.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	i := start(t, onURL(master.URL()))
	name := topicName(t)
	i.refusesDurability(t, name, "replica", "has no connected replica")
	i.refusesDurability(t, name, "disk", "one of memory, replica")
	_, port, _ := strings.Cut(master.Addr(), ":")
	replica := harness.StartRedis(t, harness.RedisOptions{Args: []string{"--replicaof", "127.0.0.1", port}})
	harness.Eventually(t, soon, "the replica to follow", func() error {
		return harness.Equal(
			"online", strings.Contains(fmt.Sprint(master.Do("INFO", "replication")), "state=online"), true)
	})
	i.put(t, name, nil, M{"durability": "replica", "delay": "1h"})
	jobs := "/v1/topics/" + name + "/jobs"
	i.pushedSafely(t, jobs, "safe")

	replica.Pause()
	began := time.Now()
	answer := i.MustDo(t, http.StatusServiceUnavailable, http.MethodPost, jobs, M{"id": "x", "body": 1})
	if took := time.Since(began); took < 500*time.Millisecond || took > busy {
		t.Errorf("answered after %s", took)
	}
	var p struct{ ID, Detail string }
	if err := answer.JSON(&p); err != nil || p.ID != "x" ||
		!strings.Contains(p.Detail, "no replica has confirmed it within 1s") || answer.Header.Get("Retry-After") == "" {
		t.Errorf("answered %s", answer)
	}
	i.MustDo(t, http.StatusServiceUnavailable, http.MethodPost, jobs, M{"id": "x", "body": 1})
	i.MustDo(t, http.StatusOK, http.MethodPut, "/v1/topics/"+name,
		M{"callback_url": i.endpoint.URL("/"), "durability": "replica", "title": "edited", "delay": "1h"})
	replica.Resume()
	i.pushedSafely(t, jobs, "x")

	master.Kill9()
	replica.Do("REPLICAOF", "NO", "ONE")
	if n := replica.Do("HLEN", "wk:{0}:j:"+name); n != int64(2) {
		t.Errorf("the replica has %v of 2 jobs", n)
	}
}

// pushedSafely pushes a job until a replica has confirmed it, which a busy machine may delay.
func (i *installation) pushedSafely(t *testing.T, jobs, id string) {
	t.Helper()
	harness.Eventually(t, soon, "the push of "+id+" to be safe", func() error {
		if answer := i.Do(ctx, http.MethodPost, jobs, M{"id": id, "body": 1}); answer.Err != nil ||
			answer.Status >= 300 {
			return errors.New(answer.String())
		}
		return nil
	})
}

// refusesDurability checks that a topic cannot be registered.
func (i *installation) refusesDurability(t *testing.T, topic, durability, why string) {
	t.Helper()
	answer := i.MustDo(t, http.StatusUnprocessableEntity, http.MethodPut, "/v1/topics/"+topic,
		M{"callback_url": i.endpoint.URL("/"), "durability": durability})
	var p harness.Problem
	if err := answer.JSON(&p); err != nil || p.Field != "durability" || !strings.Contains(p.Detail, why) {
		t.Errorf("%s: answered %s", durability, answer)
	}
}

// TestDurabilityThroughAFailover: a replica that took over is alone until the old master is back; until then, pushes
// are stored, and answered as not safe.
func TestDurabilityThroughAFailover(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	s := redistest.StartSentinels(t)
	i := start(t, onURL(s.URL()))
	topic := i.topic(t, nil, M{"durability": "replica", "delay": "1h"})
	jobs := "/v1/topics/" + topic + "/jobs"
	pushed := func(id string, status int) func() error {
		return func() error {
			return harness.Equal(
				"status of the push", i.Do(ctx, http.MethodPost, jobs, M{"id": id, "body": 1}).Status, status)
		}
	}
	i.pushedSafely(t, jobs, "before")
	s.Nodes[0].Kill()
	harness.Eventually(t, soon, "the replica to be promoted",
		func() error { return harness.Equal("role", s.Nodes[1].Role(), "master") })
	i.MustDo(t, http.StatusOK, http.MethodGet, "/v1/topics/"+topic, nil)
	harness.Eventually(t, soon, "a push to be stored but not safe", func() error {
		if err := pushed("alone", http.StatusServiceUnavailable)(); err != nil {
			return err
		}
		return harness.Equal("status", i.Do(ctx, http.MethodGet, jobs+"/alone", nil).Status, http.StatusOK)
	})
	s.Nodes[0].Restart() // as a replica
	harness.Eventually(t, soon, "the push to be safe", pushed("alone", http.StatusOK))
	i.MustDo(t, http.StatusOK, http.MethodGet, jobs+"/before", nil)
	i.pushedSafely(t, jobs, "after")
}
