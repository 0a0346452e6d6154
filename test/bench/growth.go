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
		{
			name: "growth_push", title: "Redis's time for a push: with 10,000,000 delayed jobs by that with 10,000",
			unit: "times", atMost: 1.3, fullOnly: true,
		},
		{
			name: "growth_move", title: "Redis's time from delayed to ready: the same",
			unit: "times", atMost: 1.3, fullOnly: true,
		},
		{
			name: "growth_memory", title: "Redis memory per delayed job, 64-byte body, id of 24 bytes, 10,000,000 jobs",
			unit: "bytes", atMost: 140, fullOnly: true,
		},
	},
	measure: measureGrowth,
}

const (
	fewJobs      = 10_000
	growthTry    = 100_000 // jobs whose push and move each round measures
	growthRounds = 4
	growthNear   = 8 * time.Second
	nearTopic    = topicName + ".near"
)

// cost is the time that a job takes in Redis, in microseconds.
type cost struct {
	Push float64 `json:"push_us"`
	Move float64 `json:"move_us"`
}

func (c *cost) add(round cost) {
	c.Push += round.Push / growthRounds
	c.Move += round.Move / growthRounds
}

// measureGrowth runs two installations side by side, one with few jobs and one with many, and measures them in turn, so
// that a machine whose speed varies from minute to minute affects both equally.
func measureGrowth(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(few *installation) error {
		return s.on(ctx, func(many *installation) error {
			raw, err = s.growth(ctx, few, many)
			return err
		})
	})
	return raw, err
}

func (s *suite) growth(ctx context.Context, few, many *installation) ([]Raw, error) {
	if _, err := s.fillFar(ctx, few, fewJobs); err != nil {
		return nil, err
	}
	memory, err := s.fillFar(ctx, many, s.scale.growth)
	if err != nil {
		return nil, err
	}
	var fewCost, manyCost cost
	for round := range growthRounds {
		first, second, in := &fewCost, &manyCost, []*installation{few, many}
		if round%2 == 1 {
			first, second, in = second, first, []*installation{many, few}
		}
		for i, sum := range []*cost{first, second} {
			c, err := s.costs(ctx, in[i])
			if err != nil {
				return nil, err
			}
			sum.add(c)
		}
	}
	detail := map[string]any{"jobs": s.scale.growth, "few": fewCost, "many": manyCost}
	return []Raw{
		{Value: manyCost.Push / fewCost.Push, Detail: detail}, {Value: manyCost.Move / fewCost.Move},
		{Value: float64(memory) / float64(s.scale.growth)},
	}, nil
}

// fillFar pushes n jobs that are due in hours, waits until Redis is idle, and returns how many bytes they use.
func (s *suite) fillFar(ctx context.Context, in *installation, n int) (memory int64, err error) {
	if err := in.putTopic(ctx, topicName, s.endpoint.url("/count"), "paused"); err != nil {
		return 0, err
	}
	before, err := in.info(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	far := batch{topic: topicName, token: in.token, size: 1000, delay: between(time.Hour, 24*time.Hour)}
	if err := s.fill(ctx, in, far, n); err != nil {
		return 0, err
	}
	if err := in.rest(ctx); err != nil {
		return 0, err
	}
	after, err := in.info(ctx, "memory", "used_memory")
	return after - before, err
}

// rest waits until Redis neither writes a file in the background nor runs scripts.
func (in *installation) rest(ctx context.Context) error {
	const rests = 10 * time.Millisecond // script time per second in an idle installation
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var before time.Duration
	return until(ctx, time.Second, func() (bool, error) {
		writes, err := in.info(ctx, "persistence", "aof_rewrite_in_progress")
		if err != nil {
			return false, err
		}
		worked, err := in.scriptTime(ctx)
		did := worked - before
		before = worked
		return writes == 0 && did < rests, err
	})
}

// costs pushes jobs that are due soon, waits until they are ready, and drops them. It returns what that took.
func (s *suite) costs(ctx context.Context, in *installation) (c cost, err error) {
	if err := in.putTopic(ctx, nearTopic, s.endpoint.url("/count"), "paused"); err != nil {
		return c, err
	}
	due := time.Now().Add(growthNear)
	b := batch{
		topic: nearTopic,
		token: in.token,
		size:  batchSize,
		delay: func() time.Duration { return max(0, time.Until(due)) },
	}
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
	moving, cancel := context.WithTimeout(ctx, growthNear+time.Minute)
	defer cancel()
	err = until(moving, 50*time.Millisecond, func() (bool, error) {
		stats, err := in.api.Stats(moving, nearTopic)
		return err == nil && stats.Ready >= growthTry, err
	})
	if err != nil {
		return c, fmt.Errorf("%d jobs become ready: %w", growthTry, err)
	}
	moved, err := in.scriptTime(ctx)
	if err != nil {
		return c, err
	}
	if err := in.api.DropTopic(ctx, nearTopic); err != nil {
		return c, err
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / growthTry }
	return cost{Push: micros(pushed - start), Move: micros(moved - pushed)}, in.rest(ctx)
}

// scriptTime returns how long Redis has run scripts so far.
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
