package bench

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/redistest"
)

// capacity measures what the capacity page calculates with: the processor time of a job, of the Redis threads that
// serve commands and of Wakecall's own processes, with one shard and with two.
func capacity(b *bench) {
	far := within(time.Hour, 2*time.Hour)
	own, made := jobs{delay: far}, jobs{delay: far, id: func(int, time.Duration) string { return "" }}
	for shards := 1; shards <= 2; shards++ {
		s := &sharded{installation: b.start(nil)}
		for n := 1; n < shards; n++ {
			s.addShard(fmt.Sprint("redis-", n+1))
		}
		s.put(topic, countPath, "paused")
		with := fmt.Sprintf(", shards: %d", shards)
		s.costs("push in a batch of 100"+with, b.pull, func() {
			b.ok(harness.StartClients(b, 16, 0, s.batches(own, 100, b.pull/100)).Wait())
		})
		s.costs("push in a batch of 100, ids made by the server"+with, b.pull, func() {
			b.ok(harness.StartClients(b, 16, 0, s.batches(made, 100, b.pull/100)).Wait())
		})
		single := atMost(b.callbacks, func([]byte) []byte {
			job := fmt.Sprintf(`{"id":"single-%017d","body":%s,"delay":3600}`, s.jobs.Add(1), body(1))
			return harness.Request("POST", "/v1/topics/"+topic+"/jobs", s.Token, job)
		})
		s.costs("single push, 64 at once"+with, b.callbacks, func() {
			b.ok(harness.StartClients(b, 64, 0, b.sending(s.addr(), single)).Wait())
		})
		const called = topic + ".called"
		s.put(called, countPath, "paused")
		s.fill(jobs{delay: atOnce, topic: func(int) string { return called }}, b.callbacks)
		s.endpoint.reset()
		s.costs("callback"+with, b.callbacks, func() {
			s.put(called, countPath, "active")
			s.endpoint.await(b.callbacks, 5*time.Minute)
		})
	}
}

// sharded is an installation with shards beside the one of its managed redis-server.
type sharded struct {
	*installation
	others []*redistest.Server
}

func (s *sharded) addShard(name string) {
	s.b.Helper()
	server := harness.StartRedis(s.b.T, harness.RedisOptions{})
	s.others = append(s.others, server)
	if code, out := s.Run("shard", "add", name, "--url", server.URL()); code != 0 {
		s.b.Fatalf("shard add exits %d: %.500s", code, out)
	}
}

// costs records the microseconds of a job.
func (s *sharded) costs(what string, jobs int, do func()) {
	s.b.Helper()
	s.rest()
	redis, own := s.used()
	do()
	redisAfter, ownAfter := s.used()
	s.b.figure(what+": Redis", "µs a job", "", perJob(redisAfter-redis, jobs))
	s.b.figure(what+": Wakecall's processes", "µs a job", "", perJob(ownAfter-own, jobs))
}

// used returns the processor time of the Redis threads that serve commands, and of Wakecall's processes.
func (s *sharded) used() (redis, own time.Duration) {
	s.b.Helper()
	redis = s.redisCPU()
	for _, server := range s.others {
		p, err := procfs.NewProc(server.PID())
		used, usedErr := p.Schedstat() // of its first thread
		if err := errors.Join(err, usedErr); err != nil {
			s.b.Fatal(err)
		}
		redis += time.Duration(used.RunningNanoseconds)
	}
	for _, p := range process.Below(s.Dir) {
		if strings.Contains(p.Title, "redis-server") {
			continue
		}
		used, err := process.CPU(p.PID)
		if err != nil {
			s.b.Fatal(err)
		}
		own += used
	}
	return redis, own
}
