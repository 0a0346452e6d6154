package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/test/harness/ledger"
	"github.com/wakecall/wakecall/test/wait"
)

// probePrefix begins the ids of jobs that are pushed to check whether calls flow.
const probePrefix = "probe-"

// prompt are topics whose endpoints, or workers, answer at once.
var prompt = []string{"steady", "flaky", "mortal", "pulled"}

// noteProbe records that a job was done, if it is a probe.
func (s *site) noteProbe(id string) {
	if strings.HasPrefix(id, probePrefix) {
		s.answered.Store(id, true)
	}
}

// waitCalm waits until calls flow again: every process is running, both hosts accept pushes and reach both shards, no
// due job is waiting, and a batch of probes pushed to each host has been called.
func (s *site) waitCalm(ctx context.Context) error {
	return wait.Until(ctx, 50*time.Millisecond, func() error {
		for _, check := range []func(context.Context) error{s.complete, s.reach, s.onTime, s.probe} {
			limited, cancel := context.WithTimeout(ctx, patience)
			err := check(limited)
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// complete returns nil when no process is missing, and every host can accept a push.
func (s *site) complete(context.Context) error {
	for n, h := range s.hosts {
		if h.Exited() {
			return fmt.Errorf("host %d has ended:\n%s", n+1, h.Log(4000))
		}
		for _, role := range roles {
			if len(h.Role(role)) == 0 {
				return fmt.Errorf("host %d has no %s", n+1, role)
			}
		}
		if err := h.Readyz(); err != nil {
			return fmt.Errorf("host %d: %w", n+1, err)
		}
	}
	return nil
}

// reach returns nil when every host reaches both shards.
func (s *site) reach(ctx context.Context) error {
	for n, h := range s.hosts {
		var body struct {
			Shards []client.Shard `json:"shards"`
		}
		if err := h.Quick().Do(ctx, http.MethodGet, "/v1/shards", nil).JSON(&body); err != nil {
			return fmt.Errorf("host %d: %w", n+1, err)
		}
		for _, sh := range body.Shards {
			if !sh.Up {
				return fmt.Errorf("host %d does not reach %s", n+1, sh.Name)
			}
		}
	}
	return nil
}

// onTime returns nil when no job of a prompt topic is overdue.
func (s *site) onTime(ctx context.Context) error {
	for _, topic := range prompt {
		stats, err := s.hosts[0].Quick().Stats(ctx, topic)
		if err != nil {
			return err
		}
		if stats.OldestReadyMS > 2000 {
			return fmt.Errorf("a job of %s has been ready for %.0f ms", topic, stats.OldestReadyMS)
		}
	}
	return nil
}

// probe pushes jobs that are due at once to the prompt topics, through each host, and waits until they were done.
func (s *site) probe(context.Context) error {
	var sent []ledger.Event
	for n := range s.hosts {
		var pushes []push
		for i := range 12 {
			s.probes++
			id := fmt.Sprint(probePrefix, s.probes)
			pushes = append(pushes, newPush(prompt[i%len(prompt)], id, "probe", "high", 0))
		}
		sent = append(sent, s.prober.batch(n+1, pushes)...)
	}
	for _, e := range sent {
		if e.Result != ledger.Acknowledged {
			return fmt.Errorf("a probe of host %d was answered %d %s", e.Host, e.Status, e.Error)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return wait.Until(ctx, 5*time.Millisecond, func() error {
		for _, e := range sent {
			if _, ok := s.answered.Load(e.ID); !ok {
				return fmt.Errorf("the probe %s was not called", e.Key())
			}
		}
		return nil
	})
}

// waitDrained waits until no job is delayed, ready or running, and no host has a job to recover.
func (s *site) waitDrained(ctx context.Context) error {
	return wait.Until(ctx, 200*time.Millisecond, func() error {
		if err := s.compared(ctx); err != nil {
			return err
		}
		return s.hosts[0].Drained(ctx, slices.Concat(named(true), named(false))...)
	})
}

// compared checks that every host has replayed its journal in the servers that answer now: before that, writes that a
// server has lost are missing.
func (s *site) compared(ctx context.Context) error {
	for n, sh := range s.shards {
		id, err := sh.server.Info("Server", "run_id")
		if err != nil {
			return fmt.Errorf("redis %d: %w", n+1, err)
		}
		for b := range buckets() {
			if err := s.bucketCompared(ctx, sh.server.Client(), b, id); err != nil {
				return fmt.Errorf("redis %d: bucket %d: %w", n+1, b, err)
			}
		}
	}
	return nil
}

// buckets is the number of buckets of each deployment.
func buckets() int {
	if deployment == "cluster" {
		return 16
	}
	return 1
}

// bucketCompared checks that every host has replayed its journal in a bucket, if the server has it.
func (s *site) bucketCompared(ctx context.Context, c *goredis.Client, b int, id string) error {
	prefix := fmt.Sprintf("wk:{%d}:", b)
	cmp, hosts := c.HMGet(ctx, prefix+"cmp", "run", "upto", "name"), c.HGetAll(ctx, prefix+"hosts")
	if cmp.Err() != nil && strings.HasPrefix(cmp.Err().Error(), "MOVED ") {
		return nil
	}
	if err := errors.Join(cmp.Err(), hosts.Err()); err != nil {
		return err
	}
	run, upto, name := cmp.Val()[0], cmp.Val()[1], cmp.Val()[2]
	done := 0
	for field, value := range hosts.Val() {
		if strings.HasPrefix(field, "comparison ") && value == name {
			done++
		}
	}
	if run != id || upto == nil || done < len(s.hosts) {
		return fmt.Errorf("%d hosts have compared their journals with it", done)
	}
	return nil
}
