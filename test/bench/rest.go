package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

var memoryGroup = group{
	name: "memory", about: "Redis memory of delayed jobs",
	figures: []figure{ // fixed costs weigh more when there are fewer jobs
		{
			name: "memory", title: "Redis memory per delayed job, 64-byte body, id of 24 bytes",
			unit: "bytes", atMost: 140, fullOnly: true,
		},
		{
			name: "memory_made", title: "the same, ids made by the server",
			unit: "bytes", atMost: 150, fullOnly: true,
		},
	},
	measure: measureMemory,
}

// measureMemory measures jobs with ids of their caller's, and such that leave theirs to the server.
func measureMemory(ctx context.Context, s *suite) (raw []Raw, err error) {
	withoutID := func(int, int, time.Duration) string { return "" }
	for _, id := range []func(conn, n int, _ time.Duration) string{nil, withoutID} {
		r, err := s.memoryWith(ctx, id)
		if err != nil {
			return nil, err
		}
		raw = append(raw, r)
	}
	return raw, nil
}

// memoryWith pushes jobs that are due over an hour and looks by how much Redis's used memory grows.
func (s *suite) memoryWith(ctx context.Context, id func(conn, n int, _ time.Duration) string) (raw Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		if err := in.putTopic(ctx, topicName, s.endpoint.url("/count"), "active"); err != nil {
			return err
		}
		before, err := in.info(ctx, "memory", "used_memory")
		if err != nil {
			return err
		}
		b := batch{topic: topicName, token: in.token, size: 1000, delay: between(time.Hour, 2*time.Hour), id: id}
		if err := s.fill(ctx, in, b, s.scale.memoryJobs); err != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil { // what waits for the append-only file is not the jobs'
			return err
		}
		after, err := in.info(ctx, "memory", "used_memory")
		if err != nil {
			return err
		}
		rss, err := in.info(ctx, "memory", "used_memory_rss")
		raw = Raw{Value: float64(after-before) / float64(s.scale.memoryJobs), Detail: map[string]any{
			"jobs": s.scale.memoryJobs, "used_memory_before": before, "used_memory_after": after, "used_memory_rss_after": rss,
		}}
		return err
	})
	return raw, err
}

// An installation counts as idle when it has settled: within ten seconds of its start and the last change, processes
// compare journals and read all topics once.
var idleGroup = group{
	name: "idle", about: "an idle installation with 1,000 topics",
	figures: []figure{
		{name: "idle_commands", title: "Redis commands when idle, 1,000 topics", unit: "/s", atMost: 10},
		{
			name: "idle_cpu", title: "CPU when idle, all processes, 1,000 topics",
			unit: "% of a core", atMost: 1, fullOnly: true,
		},
		{
			name: "idle_rss", title: "Memory when idle, largest process, 1,000 topics",
			unit: "MiB", atMost: 60, fullOnly: true,
		},
	},
	measure: measureIdle,
}

func measureIdle(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		if err := s.registerTopics(ctx, in, s.scale.topics); err != nil {
			return err
		}
		if err := pause(ctx, s.scale.settle); err != nil {
			return err
		}
		raw, err = s.watchIdle(ctx, in)
		return err
	})
	return raw, err
}

func idleTopic(n int) string { return fmt.Sprintf("bench.idle.%04d", n) }

// registerTopics puts topics, a few at a time.
func (s *suite) registerTopics(ctx context.Context, in *installation, topics int) error {
	const workers = 16
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := w; n < topics && errs[w] == nil; n += workers {
				errs[w] = in.putTopic(ctx, idleTopic(n), s.endpoint.url("/count"), "active")
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) watchIdle(ctx context.Context, in *installation) ([]Raw, error) {
	cpuBefore, err := cpuByProcess(in.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	before, err := in.redis.Info(ctx, "stats", "commandstats").Result()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if err := pause(ctx, s.scale.idle); err != nil {
		return nil, err
	}
	after, err := in.redis.Info(ctx, "stats", "commandstats").Result()
	if err != nil {
		return nil, err
	}
	seconds := time.Since(started).Seconds()
	cpuAfter, err := cpuByProcess(in.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	commands, err := commandsBetween(before, after)
	if err != nil {
		return nil, err
	}
	cpu, used, err := cpuBetween(cpuBefore, cpuAfter)
	if err != nil {
		return nil, err
	}
	memory, err := idleMemory(in.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	return []Raw{
		{Value: float64(commands) / seconds, Detail: map[string]any{
			"commands": commands, "seconds": seconds, "by_command": callsBetween(before, after),
		}},
		{Value: 100 * cpu.Seconds() / seconds, Detail: map[string]any{
			"cpu_seconds": cpu.Seconds(), "seconds": seconds, "cpu_ms_by_process": used,
		}},
		memory,
	}, nil
}

// cpuBetween is what processes used between two looks, in all and in ms each.
func cpuBetween(before, after map[int]time.Duration) (total time.Duration, each map[string]float64, err error) {
	each = map[string]float64{}
	for p, cpu := range after {
		title, err := processTitle(p)
		if err != nil {
			return 0, nil, err
		}
		used := cpu - before[p]
		each[title] += float64(used.Microseconds()) / 1000
		total += used
	}
	return total, each, nil
}

// idleMemory is what each process of an installation keeps resident, the largest first among Wakecall's own; the
// redis-server is told too, but is not Wakecall's. Pages of the program count for every process that has them mapped,
// though they are in memory once: that is what pss leaves out.
func idleMemory(pid int) (Raw, error) {
	stats, err := readStats()
	if err != nil {
		return Raw{}, err
	}
	raw := Raw{Detail: map[string]any{}}
	resident, proportional := map[string]float64{}, map[string]float64{}
	for p := range tree(stats, pid) {
		title, err := processTitle(p)
		if err != nil {
			return Raw{}, err
		}
		rss, pss, err := residentOf(p)
		if err != nil {
			return Raw{}, err
		}
		resident[title], proportional[title] = rss, pss
		if rss > raw.Value && stats[p].name != redisName {
			raw.Value, raw.Detail["largest"] = rss, title
		}
	}
	raw.Detail["rss_mib"], raw.Detail["pss_mib"] = resident, proportional
	return raw, nil
}

// commandsBetween is how many commands Redis processed between two INFOs, those of scripts included, the first INFO
// itself not.
func commandsBetween(before, after string) (int64, error) {
	const key = "total_commands_processed"
	first, err := infoNumber(before, key)
	if err != nil {
		return 0, err
	}
	second, err := infoNumber(after, key)
	return second - first - 1, err
}

// callsBetween are the calls of each command between two INFOs.
func callsBetween(before, after string) map[string]int64 {
	calls := commandCalls(after)
	for name, n := range commandCalls(before) {
		if calls[name] -= n; calls[name] == 0 {
			delete(calls, name)
		}
	}
	return calls
}

// commandCalls reads lines like cmdstat_get:calls=3,usec=…
func commandCalls(info string) map[string]int64 {
	calls := map[string]int64{}
	for line := range strings.Lines(info) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		digits, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			calls[name] = n
		}
	}
	return calls
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
