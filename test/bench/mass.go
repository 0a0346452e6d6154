package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

var massGroup = group{
	name: "mass", about: "a mass of jobs due in the same second, and another topic beside it",
	figures: []figure{
		{
			name: "mass_left", title: "1,000,000 jobs due in the same second: not called",
			unit: "jobs", bounded: true,
		},
		{name: "mass_block", title: "the same: longest command of Redis", unit: "ms", atMost: 10},
		{name: "mass_memory", title: "the same: memory of the largest process", unit: "MiB", atMost: 256},
		{
			name: "mass_late", title: "the same: lateness of another topic meanwhile, 200 jobs/s, p99",
			unit: "ms", atMost: 100,
		},
	},
	measure: measureMass,
}

const (
	massTopic = topicName + ".mass"
	massRate  = 30_000 // pushes a second that are assumed
	massLimit = 5 * time.Minute
)

// measureMass pushes jobs that are all due at one moment, and from before then until they are called a trickle of
// others.
func measureMass(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		if err := in.putTopic(ctx, massTopic, s.endpoint.url("/count"), "active"); err != nil {
			return err
		}
		if err := in.putTopic(ctx, topicName, s.endpoint.url("/late"), "active"); err != nil {
			return err
		}
		if err := s.endpoint.reset(ctx); err != nil {
			return err
		}
		due := time.Now().Add(5*time.Second + time.Duration(s.scale.mass)*time.Second/massRate)
		b := batch{
			topic: massTopic,
			token: in.token,
			size:  batchSize,
			delay: func() time.Duration { return time.Until(due) },
		}
		if err := s.fill(ctx, in, b, s.scale.mass); err != nil {
			return err
		}
		if left := time.Until(due); left < time.Second {
			return fmt.Errorf("%d jobs were not pushed in time", s.scale.mass)
		}
		raw, err = s.watchMass(ctx, in, due)
		return err
	})
	return raw, err
}

func (s *suite) watchMass(ctx context.Context, in *installation, due time.Time) (raw []Raw, err error) {
	if err := in.redis.ConfigSet(ctx, "latency-monitor-threshold", "1").Err(); err != nil {
		return nil, err
	}
	if err := in.redis.Do(ctx, "LATENCY", "RESET").Err(); err != nil {
		return nil, err
	}
	trickle := *s
	trickle.scale.lateMin, trickle.scale.lateMax = time.Second, 2*time.Second
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	pushed, largest := make(chan int, 1), int64(0)
	var paceErr error
	wg.Go(func() {
		trickle.scale.latePush = time.Until(due) + time.Duration(s.scale.mass)*time.Second/massRate
		var n int
		n, paceErr = trickle.pace(ctx, in, lateRate)
		pushed <- n
	})
	watched, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() {
		_ = until(watched, 200*time.Millisecond, func() (bool, error) {
			n, err := largestProcess(in.cmd.Process.Pid)
			largest = max(largest, n)
			return false, err
		})
	})
	if err := pause(ctx, time.Until(due)); err != nil {
		return nil, err
	}
	others := <-pushed
	if paceErr != nil {
		return nil, paceErr
	}
	if err := s.awaitCallbacks(ctx, int64(s.scale.mass+others), massLimit); err != nil {
		return nil, err
	}
	ended := time.Now()
	stop()
	blocks, err := in.latencies(ctx)
	if err != nil {
		return nil, err
	}
	seen, err := s.endpoint.seen(ctx, true)
	if err != nil {
		return nil, err
	}
	cancel()
	wg.Wait()
	late := judge(seen.Samples, due, ended, lateRate)
	steady, whole := steadyRate(seen.Buckets)
	detail := map[string]any{
		"jobs":                s.scale.mass,
		"others":              others,
		"per_second":          steady,
		"whole_per_second":    whole,
		"longest_ms_by_event": blocks,
	}
	return []Raw{
		{Value: float64(int64(s.scale.mass+others) - seen.Count), Detail: detail},
		{Value: float64(max(blocks["command"], blocks["fast-command"]))},
		{Value: float64(largest) / (1 << 20)},
		{Value: late[1].Value, Detail: late[0].Detail},
	}, nil
}

// latencies are the longest times, in ms, that each kind of event kept Redis busy since the last reset; none below the
// threshold.
func (in *installation) latencies(ctx context.Context) (map[string]int64, error) {
	events, err := in.redis.Do(ctx, "LATENCY", "LATEST").Slice()
	if err != nil {
		return nil, err
	}
	longest := map[string]int64{}
	for _, e := range events {
		fields, ok := e.([]any)
		if !ok || len(fields) < 4 {
			return nil, fmt.Errorf("LATENCY LATEST answered %v", e)
		}
		name, _ := fields[0].(string)
		longest[name], _ = fields[3].(int64)
	}
	return longest, nil
}

// largestProcess is the most memory that one process of an installation has, its Redis left out.
func largestProcess(pid int) (int64, error) {
	stats, err := readStats()
	if err != nil {
		return 0, err
	}
	largest := int64(0)
	for p := range tree(stats, pid) {
		if stats[p].name != redisName {
			largest = max(largest, stats[p].memory)
		}
	}
	return largest, nil
}
