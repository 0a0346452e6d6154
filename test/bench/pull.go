package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	pullWorkers      = 64
	pullBatchWorkers = 16
	idleWorkers      = 1000
	idlePullTopics   = 200
)

var pullGroup = group{
	name: "pull", about: "workers of a full pull topic, one job a call and 100",
	figures: []figure{
		{name: "pull", title: "reserve and ack, 64 workers, one job a call", unit: "jobs/s", atLeast: 12_000},
		{
			name: "pull_batch", title: "reserve and ack, 16 workers, 100 jobs a call",
			unit: "jobs/s", atLeast: 60_000,
		},
	},
	measure: func(ctx context.Context, s *suite) (raw []Raw, err error) {
		for _, w := range []struct{ workers, size, jobs int }{
			{pullWorkers, 1, s.scale.pullJobs / 4}, {pullBatchWorkers, batchSize, s.scale.pullJobs},
		} {
			r, err := s.consume(ctx, w.workers, w.size, w.jobs)
			if err != nil {
				return nil, err
			}
			raw = append(raw, r)
		}
		return raw, nil
	},
}

func (in *installation) putPullTopic(ctx context.Context, name string) error {
	_, _, err := in.api.PutTopicJSON(ctx, name, []byte(`{"delivery":"pull","ttr":"5m"}`))
	return err
}

// consume fills a pull topic and lets workers empty it, but for what would leave some of them without jobs.
func (s *suite) consume(ctx context.Context, workers, size, jobs int) (raw Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		if err := in.putPullTopic(ctx, topicName); err != nil {
			return err
		}
		now := func() time.Duration { return 0 }
		if err := s.fill(ctx, in, batch{topic: topicName, token: in.token, size: 1000, delay: now}, jobs); err != nil {
			return err
		}
		r, cpu, err := in.load(ctx, load{
			addr: in.addr, conns: workers, total: 2 * (jobs/size - 2*workers),
			reply: func(int) func([]byte) []byte { return worker(in.token, size) },
		})
		raw = Raw{Value: r.Rate / 2 * float64(size), Detail: map[string]any{
			"requests": r, "cpu_us_per_job": 2 * cpu / float64(size),
		}}
		return err
	})
	return raw, err
}

// worker reserves jobs and acks them, each request made of the answer to the one before.
func worker(token string, size int) func(answer []byte) []byte {
	reserve := post("/v1/topics/"+topicName+"/reserve", token, fmt.Sprintf(`{"max":%d}`, size))
	return func(answer []byte) []byte {
		leases := leasesOf(answer)
		switch {
		case len(leases) == 0:
			return reserve
		case size == 1:
			return post("/v1/leases/"+leases[0]+"/ack", token, "")
		}
		return post("/v1/leases", token, `{"ack":["`+strings.Join(leases, `","`)+`"]}`)
	}
}

// leasesOf are the leases in the answer to a reserve; none in that to an ack. To decode the answer would cost the
// generator more than the server takes to make it.
func leasesOf(answer []byte) (leases []string) {
	if !bytes.HasPrefix(answer, []byte(`{"jobs":`)) {
		return nil
	}
	for {
		_, rest, found := bytes.Cut(answer, []byte(`{"lease":"`))
		if !found {
			return leases
		}
		lease, rest, _ := bytes.Cut(rest, []byte(`"`))
		leases, answer = append(leases, string(lease)), rest
	}
}

var pullLateGroup = group{
	name: "pull_lateness", about: "how long after its due time a job is with a worker who waits",
	figures: []figure{
		{name: "pull_p50", title: "due job to a waiting worker, 200 jobs/s, p50", unit: "ms", atMost: 2},
		{name: "pull_p99", title: "due job to a waiting worker, 200 jobs/s, p99", unit: "ms", atMost: 5},
		{name: "pull_max", title: "due job to a waiting worker, 200 jobs/s, max", unit: "ms"},
		{name: "pull_early", title: "with a worker early", unit: "jobs", bounded: true},
	},
	measure: measurePullLateness,
}

func measurePullLateness(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		if err := in.putPullTopic(ctx, topicName); err != nil {
			return err
		}
		var list samples
		stop := in.workers(pullWorkers, func(int) func([]byte) []byte { return waiter(in.token, &list) })
		started := time.Now()
		pushed, err := s.pace(ctx, in, lateRate)
		if err != nil {
			return errors.Join(err, stop())
		}
		ended := time.Now()
		err = until(ctx, 100*time.Millisecond, func() (bool, error) { return list.len() >= pushed, nil })
		if err = errors.Join(err, stop()); err != nil {
			return err
		}
		raw = judge(list.all, started.Add(s.scale.lateMax), ended.Add(s.scale.lateMin), lateRate)
		return nil
	})
	return raw, err
}

// samples are what workers got.
type samples struct {
	mu  sync.Mutex
	all []sample
}

func (l *samples) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// waiter waits for a job, notes when it came, and acks it.
func waiter(token string, list *samples) func(answer []byte) []byte {
	reserve := post("/v1/topics/"+topicName+"/reserve", token, `{"wait":"5m"}`)
	return func(answer []byte) []byte {
		now := time.Now()
		var got struct {
			Jobs []struct {
				Lease, ID string
				DueAt     time.Time `json:"due_at"`
			}
		}
		if json.Unmarshal(answer, &got) != nil || len(got.Jobs) == 0 { // an ack has no body
			return reserve
		}
		j := got.Jobs[0]
		list.mu.Lock()
		list.all = append(list.all, sample{At: now.UnixMicro(), Due: j.DueAt.UnixMilli(), Wanted: wantedOf(j.ID)})
		list.mu.Unlock()
		return post("/v1/leases/"+j.Lease+"/ack", token, "")
	}
}

// workers run until stop.
func (in *installation) workers(n int, reply func(conn int) func([]byte) []byte) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := in.work(ctx, reply(i)); ctx.Err() == nil {
				errs[i] = err
			}
		})
	}
	return func() error {
		cancel()
		wg.Wait()
		return errors.Join(errs...)
	}
}

func (in *installation) work(ctx context.Context, reply func([]byte) []byte) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", in.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	w := wire{conn: conn, r: bufio.NewReader(conn)}
	var answer []byte
	for {
		status, body, err := w.roundTrip(reply(answer))
		if err == nil {
			err = load{}.verify(status, body)
		}
		if err != nil {
			return fmt.Errorf("a worker: %w", err)
		}
		answer = slices.Clone(body)
	}
}

var pullIdleGroup = group{
	name: "pull_idle", about: "1,000 workers who wait for jobs of 200 topics",
	figures: []figure{
		{name: "pull_commands", title: "Redis commands, 1,000 waiting workers, 200 topics", unit: "/s", atMost: 20},
		{
			name: "pull_cpu", title: "CPU, 1,000 waiting workers, all processes", unit: "% of a core",
			atMost: 2, fullOnly: true,
		},
		{
			name: "pull_rss", title: "Memory, 1,000 waiting workers, largest process", unit: "MiB",
			atMost: 60, fullOnly: true,
		},
	},
	measure: func(ctx context.Context, s *suite) (raw []Raw, err error) {
		err = s.on(ctx, func(in *installation) error {
			for n := range idlePullTopics {
				if err := in.putPullTopic(ctx, idleTopic(n)); err != nil {
					return err
				}
			}
			stop := in.workers(idleWorkers, func(n int) func([]byte) []byte {
				wait := post("/v1/topics/"+idleTopic(n%idlePullTopics)+"/reserve", in.token, `{"wait":"10m"}`)
				return func([]byte) []byte { return wait }
			})
			err := pause(ctx, s.scale.settle)
			if err == nil {
				raw, err = s.watchIdle(ctx, in)
			}
			return errors.Join(err, stop())
		})
		return raw, err
	},
}
