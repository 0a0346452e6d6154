package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Figures about many topics. Quick runs have fewer, and judge nothing.
var topicsGroup = group{
	name: "topics", about: "an installation with 100,000 topics",
	figures: []figure{
		{name: "topics_apply", title: "topic apply of 100,000 new topics", unit: "s", atMost: 60, fullOnly: true},
		{name: "topics_start", title: "start with 100,000 topics", unit: "ms", atMost: 3000, fullOnly: true},
		{
			name: "topics_change", title: "a change until its limits are in Redis, p99",
			unit: "ms", atMost: 100, fullOnly: true,
		},
		{name: "topics_change_cpu", title: "the same: processor time of all processes", unit: "ms"},
		{
			name: "topics_rss", title: "100,000 topics, idle: memory of the largest process",
			unit: "MiB", atMost: 250, fullOnly: true,
		},
		{name: "topics_idle", title: "the same: Redis commands", unit: "/s", atMost: 20},
		{
			name: "topics_idle_cpu", title: "the same: processor time",
			unit: "% of a core", atMost: 2, fullOnly: true,
		},
		{
			name: "topics_metrics", title: "the same, jobs in every topic: lines of /metrics",
			unit: "lines", atMost: 20_000,
		},
		{
			name: "topics_push", title: "batch pushes round robin over all topics, by those to one topic",
			unit: "times",
		},
		{
			name: "topics_push_single", title: "single pushes round robin over them, by those to one topic",
			unit: "times", atLeast: 0.7, fullOnly: true,
		},
		{
			name: "topics_memory", title: "Redis memory per delayed job over all topics",
			unit: "bytes", atMost: 200, fullOnly: true,
		},
		{
			name: "topics_page", title: "slowest page of the web admin with these jobs",
			unit: "ms", atMost: 200, fullOnly: true,
		},
	},
	measure: measureTopics,
}

const topicChanges = 100

func measureTopics(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		took, err := s.applyTopics(ctx, in)
		if err != nil {
			return err
		}
		raw = append(raw, Raw{Value: took.Seconds()})
		if err := in.restart(ctx, s.Binary); err != nil {
			return err
		}
		raw = append(raw, Raw{Value: ms(in.ready)})
		changes, err := s.changeTopics(ctx, in)
		if err != nil {
			return err
		}
		raw = append(raw, changes...)
		if err := pause(ctx, s.scale.settle); err != nil {
			return err
		}
		idle, err := s.watchIdle(ctx, in)
		if err != nil {
			return err
		}
		raw = append(raw, idle[2], idle[0], idle[1])
		jobs, err := s.pushOverTopics(ctx, in)
		raw = append(raw, jobs...)
		return err
	})
	return raw, err
}

// restart stops an installation and starts it again on its data.
func (in *installation) restart(ctx context.Context, binary string) error {
	if err := in.stop(); err != nil {
		return err
	}
	_ = in.redis.Close()
	in.done = make(chan struct{})
	return in.start(ctx, binary, nil)
}

// applyTopics makes the topics as a user would, from a file.
func (s *suite) applyTopics(ctx context.Context, in *installation) (time.Duration, error) {
	list := make([]map[string]string, s.scale.manyTopics)
	for i := range list {
		list[i] = map[string]string{"name": manyTopic(i), "callback_url": s.endpoint.url("/late"), "owner": "bench"}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(in.dir, "topics.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, s.Binary, "topic", "apply", "-f", file)
	cmd.Env = append(foreignEnv(), "WAKECALL_URL=http://"+in.addr, "WAKECALL_TOKEN="+in.token)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("topic apply: %w: %s", err, out[max(0, len(out)-500):])
	}
	return time.Since(began), nil
}

func manyTopic(n int) string { return fmt.Sprintf("bench.many.%06d", n) }

// changeTopics changes one topic after the other, and waits each time until its limits are in Redis: any process may
// have set them, and each sets them when it follows the registry.
func (s *suite) changeTopics(ctx context.Context, in *installation) ([]Raw, error) {
	before, err := treeCPU(in.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	var took []float64
	for n := range topicChanges {
		topic := fmt.Appendf(nil, `{"callback_url":%q,"max_attempts":%d}`, s.endpoint.url("/late"), 11+n)
		began := time.Now()
		if _, _, err := in.api.PutTopicJSON(ctx, manyTopic(7), topic); err != nil {
			return nil, err
		}
		want := fmt.Sprintf("10000 %d ", 11+n)
		if err := until(ctx, time.Millisecond, func() (bool, error) {
			conf, err := in.redis.HGet(ctx, "wk:{0}:conf", manyTopic(7)).Result()
			return strings.HasPrefix(conf, want), err
		}); err != nil {
			return nil, err
		}
		took = append(took, ms(time.Since(began)))
	}
	after, err := treeCPU(in.cmd.Process.Pid)
	slices.Sort(took)
	return []Raw{
		{Value: took[len(took)*99/100], Detail: map[string]any{"p50": took[len(took)/2], "max": took[len(took)-1]}},
		{Value: ms(after-before) / topicChanges},
	}, err
}

// pushOverTopics pushes jobs to one topic and over all, and looks at what depends on topics with jobs.
func (s *suite) pushOverTopics(ctx context.Context, in *installation) ([]Raw, error) {
	b := batch{topic: manyTopic(0), token: in.token, size: batchSize, delay: between(time.Hour, time.Hour+time.Minute)}
	batches, err := s.roundRobin(ctx, in, b, batchConnections)
	if err != nil {
		return nil, err
	}
	b.size = 1
	b.id = idsFrom(1)
	singles, err := s.roundRobin(ctx, in, b, pushConnections)
	if err != nil {
		return nil, err
	}
	before, err := in.info(ctx, "memory", "used_memory")
	if err != nil {
		return nil, err
	}
	b.size, b.topics, b.id = batchSize, s.scale.manyTopics, idsFrom(2)
	if err := s.fill(ctx, in, b, s.scale.memoryJobs); err != nil {
		return nil, err
	}
	after, err := in.info(ctx, "memory", "used_memory")
	if err != nil {
		return nil, err
	}
	lines, err := in.metricsLines(ctx)
	if err != nil {
		return nil, err
	}
	slowest, took, err := in.slowestPage(ctx, manyTopic(0))
	return []Raw{
		{Value: float64(lines)},
		batches,
		singles,
		{Value: float64(after-before) / float64(s.scale.memoryJobs)},
		{Value: slowest, Detail: map[string]any{"ms": took}},
	}, err
}

// roundRobin pushes jobs to one topic, then over all. An id may be in both: it belongs to its topic.
func (s *suite) roundRobin(ctx context.Context, in *installation, b batch, conns int) (Raw, error) {
	one, _, _, err := s.batchLoad(ctx, in, b, conns)
	if err != nil {
		return Raw{}, err
	}
	b.topics = s.scale.manyTopics
	all, _, _, err := s.batchLoad(ctx, in, b, conns)
	size := float64(b.size)
	return Raw{
		Value: all.Rate / one.Rate, Detail: map[string]any{"one": one.Rate * size, "all": all.Rate * size},
	}, err
}

// idsFrom makes the ids of the n-th set of connections.
func idsFrom(n int) func(conn, job int, _ time.Duration) string {
	return func(conn, job int, _ time.Duration) string { return jobID(conn+n*pushConnections, job) }
}

func (in *installation) metricsLines(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+in.metrics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return strings.Count(string(b), "\n"), err
}
