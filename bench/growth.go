package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

var growthGroup = group{
	name: "growth", about: "what a push and a move cost Redis when it holds few jobs, and many",
	figures: []figure{
		{group: "growth", name: "growth_push", title: "Redis's time for a push: with 10,000,000 delayed jobs by that with 10,000", unit: "times", atMost: 1.3, fullOnly: true},
		{group: "growth", name: "growth_move", title: "Redis's time from delayed to ready: the same", unit: "times", atMost: 1.3, fullOnly: true},
		{group: "growth", name: "growth_memory", title: "Redis memory per delayed job, 64-byte body, id of 24 bytes, 10,000,000 jobs", unit: "bytes", atMost: 140, fullOnly: true},
	},
	measure: measureGrowth,
}

const (
	fewJobs    = 10_000
	growthTry  = 100_000 // jobs whose push and move are measured
	growthNear = 8 * time.Second
)

// cost is what a job costs Redis, in microseconds.
type cost struct {
	Push float64 `json:"push_us"`
	Move float64 `json:"move_us"`
}

func measureGrowth(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		if err := in.putTopic(ctx, topicName, s.endpoint.url("/count"), "paused"); err != nil {
			return err
		}
		before, err := in.info(ctx, "memory", "used_memory")
		if err != nil {
			return err
		}
		far := batch{topic: topicName, token: in.token, size: 1000, delay: between(time.Hour, 24*time.Hour)}
		if err := s.fill(ctx, in, far, fewJobs); err != nil {
			return err
		}
		few, err := s.costs(ctx, in, 0)
		if err != nil {
			return err
		}
		if err := s.fill(ctx, in, far, s.scale.growth); err != nil {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		after, err := in.info(ctx, "memory", "used_memory")
		if err != nil {
			return err
		}
		many, err := s.costs(ctx, in, 1)
		detail := map[string]any{"jobs": s.scale.growth, "few": few, "many": many}
		raw = []Raw{
			{Value: many.Push / few.Push, Detail: detail}, {Value: many.Move / few.Move},
			{Value: float64(after-before) / float64(fewJobs+growthTry+s.scale.growth)},
		}
		return err
	})
	return raw, err
}

// costs pushes jobs that are due soon, and waits until they are ready.
func (s *suite) costs(ctx context.Context, in *installation, round int64) (c cost, err error) {
	due := time.Now().Add(growthNear)
	b := batch{topic: topicName, token: in.token, size: batchSize, delay: func() time.Duration { return max(0, time.Until(due)) },
		id: func(conn, n int, _ time.Duration) string { return jobID(conn+int(round+1)*batchConnections, n) }} // none that lives
	start, err := in.scriptTime(ctx)
	if err != nil {
		return c, err
	}
	if err := s.fill(ctx, in, b, growthTry); err != nil {
		return c, err
	}
	pushed, err := in.scriptTime(ctx)
	if err != nil {
		return c, err
	}
	if time.Until(due) <= 0 {
		return c, fmt.Errorf("%d jobs were not pushed within %s", growthTry, growthNear)
	}
	ready, limit := int64(0), time.Now().Add(growthNear+time.Minute)
	err = until(ctx, 50*time.Millisecond, func() (bool, error) {
		stats, err := in.api.Stats(ctx, topicName)
		if err == nil {
			ready = stats.Ready
		}
		return ready >= (round+1)*growthTry || time.Now().After(limit), err
	})
	if err == nil && ready < (round+1)*growthTry {
		err = fmt.Errorf("of %d jobs that are due only %d are ready", (round+1)*growthTry, ready)
	}
	if err != nil {
		return c, err
	}
	moved, err := in.scriptTime(ctx)
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / growthTry }
	return cost{Push: micros(pushed - start), Move: micros(moved - pushed)}, err
}

// scriptTime is how long Redis has worked at scripts so far.
func (in *installation) scriptTime(ctx context.Context) (time.Duration, error) {
	text, err := in.redis.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(text, "cmdstat_evalsha:")
	_, rest, _ = strings.Cut(rest, "usec=")
	digits, _, _ := strings.Cut(rest, ",")
	var micros int64
	if _, err := fmt.Sscan(digits, &micros); !found || err != nil {
		return 0, fmt.Errorf("INFO commandstats tells nothing of evalsha: %w", err)
	}
	return time.Duration(micros) * time.Microsecond, nil
}
