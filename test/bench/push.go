package bench

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pushConnections  = 64
	batchConnections = 16
	batchSize        = 100
	topicName        = "bench"
)

var startGroup = group{
	name: "start", about: "wakecall up, from nothing until /readyz",
	figures: []figure{
		{name: "start", title: "start of wakecall up until it takes pushes", unit: "ms", atMost: 1000},
	},
	measure: func(ctx context.Context, s *suite) (raw []Raw, err error) {
		err = s.on(ctx, func(in *installation) error {
			raw = []Raw{{Value: ms(in.ready)}}
			return nil
		})
		return raw, err
	},
}

var pushGroup = group{
	name: "push", about: "single pushes over 64 connections, beside a bare echo handler",
	figures: []figure{{
		name: "push", title: "single pushes, 64 connections, 64-byte body",
		unit: "/s", limit: "bare echo handler", ratio: 0.65,
	}},
	measure: measurePush,
}

func measurePush(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		if err := in.putTopic(ctx, topicName, s.endpoint.url("/count"), "active"); err != nil {
			return err
		}
		bare, err := s.pushLoad(s.echo.addr, "").run(ctx)
		if err != nil {
			return err
		}
		pushed, cpu, err := in.load(ctx, s.pushLoad(in.addr, in.token))
		raw = []Raw{
			{
				Value:  pushed.Rate,
				Limit:  bare.Rate,
				Detail: map[string]any{"wakecall": pushed, "bare": bare, "cpu_us_per_push": cpu},
			},
		}
		return err
	})
	return raw, err
}

func (s *suite) pushLoad(addr, token string) load {
	return load{
		addr: addr, conns: pushConnections, warmUp: s.scale.warmUp, duration: s.scale.load,
		source: singlePushes(topicName, token),
	}
}

var batchGroup = group{
	name: "batch", about: "batch pushes of 100 jobs, beside redis-benchmark",
	figures: []figure{{
		name: "batch", title: "batch pushes, 100 a request, ids of 24 bytes", unit: "jobs/s",
		limit: "redis-benchmark ZADD, 16 in a pipeline", atLeast: 120_000,
	}, {
		name:  "batch_redis",
		title: "Redis's time for a job of a batch, by that of a job alone in its script call",
		unit:  "times", atMost: 0.5,
	}},
	measure: measureBatch,
}

func measureBatch(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) error {
		bare, err := s.redisBenchmark(ctx, in)
		if err != nil {
			return err
		}
		if err := in.putTopic(ctx, topicName, s.endpoint.url("/count"), "active"); err != nil {
			return err
		}
		b := batch{topic: topicName, token: in.token, size: batchSize, delay: between(time.Hour, 2*time.Hour)}
		r, cpu, together, err := s.batchLoad(ctx, in, b, batchConnections)
		if err != nil {
			return err
		}
		b.size = 1
		b.id = func(conn, n int, _ time.Duration) string { return jobID(conn+batchConnections, n) }
		_, _, alone, err := s.batchLoad(ctx, in, b, 1)
		detail := map[string]any{
			"requests":               r,
			"cpu_us_per_job":         cpu / batchSize,
			"redis_us_per_job":       together,
			"redis_us_per_job_alone": alone,
		}
		for name, rate := range bare {
			detail[name] = rate
		}
		raw = []Raw{
			{Value: r.Rate * batchSize, Limit: bare["redis_zadd_p16"], Detail: detail},
			{Value: together / alone},
		}
		return err
	})
	return raw, err
}

// batchLoad also returns what the push script took of Redis's time, in microseconds a job.
func (s *suite) batchLoad(
	ctx context.Context,
	in *installation,
	b batch,
	conns int,
) (r loadResult, cpu, redisMicros float64, err error) {
	before, err := in.scriptTime(ctx)
	if err != nil {
		return r, 0, 0, err
	}
	r, cpu, err = in.load(ctx, s.batches(in.addr, b, conns))
	if err != nil {
		return r, 0, 0, err
	}
	after, err := in.scriptTime(ctx)
	return r, cpu, perRequest(after-before, r.All*b.size), err
}

// batches is a load of batch pushes.
func (s *suite) batches(addr string, b batch, conns int) load {
	return load{
		addr:     addr,
		conns:    conns,
		warmUp:   s.scale.warmUp,
		duration: s.scale.load,
		source:   b.source,
		check:    noErrors,
	}
}

// noErrors refuses the answer to a batch in which any job has an error.
func noErrors(_ int, body []byte) error {
	if i := bytes.Index(body, []byte(`"error":{`)); i >= 0 {
		return fmt.Errorf("a job of a batch was refused: %.300s", body[i:])
	}
	return nil
}

// redisBenchmark runs redis-benchmark, when it is on the PATH, against the installation's Redis, in a database beside
// Wakecall's.
func (s *suite) redisBenchmark(ctx context.Context, in *installation) (map[string]float64, error) {
	rates := map[string]float64{}
	tool, err := exec.LookPath("redis-benchmark")
	if err != nil {
		return rates, nil
	}
	for _, pipeline := range []int{1, 16} {
		out, err := exec.CommandContext(ctx, tool, "-s", in.redisSocket(), "--dbnum", "1",
			"-c", "64", "-d", "64", "-r", "1000000", "-t", "set,zadd", "--csv",
			"-n", strconv.Itoa(s.scale.redisBenchRequests*min(pipeline, 4)), "-P", strconv.Itoa(pipeline)).
			Output()
		if err != nil {
			return nil, fmt.Errorf("redis-benchmark: %w", err)
		}
		for name, rate := range parseRedisBenchmark(string(out)) {
			rates[fmt.Sprintf("redis_%s_p%d", name, pipeline)] = rate
		}
	}
	_, err = in.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Select(ctx, 1)
		p.FlushDB(ctx)
		p.Select(ctx, 0)
		return nil
	})
	return rates, err
}

// parseRedisBenchmark reads lines like "SET","113000.00",… into set → 113000.
func parseRedisBenchmark(csv string) map[string]float64 {
	rates := map[string]float64{}
	for line := range strings.Lines(csv) {
		cells := strings.Split(strings.TrimSpace(line), ",")
		if len(cells) < 2 {
			continue
		}
		rate, err := strconv.ParseFloat(strings.Trim(cells[1], `"`), 64)
		if err != nil {
			continue // the line of titles
		}
		rates[strings.ToLower(strings.Trim(cells[0], `"`))] = rate
	}
	return rates
}
