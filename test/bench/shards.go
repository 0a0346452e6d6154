package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
)

var shardsGroup = group{
	name: "shards", about: "batch pushes and callbacks with one, two and four shards on this machine",
	figures: shardsFigures(),
	measure: measureShards,
}

var shardCounts = []int{1, 2, 4}

func shardsFigures() (list []figure) {
	for _, n := range shardCounts {
		add := func(name, title, unit string) {
			list = append(list, figure{
				name: fmt.Sprintf("shards_%d_%s", n, name), title: fmt.Sprintf("%d shards: %s", n, title), unit: unit,
			})
		}
		add("push", "batch pushes, ids of the caller", "jobs/s")
		add("push_redis", "processor time of Redis for a push", "µs")
		add("push_rest", "processor time of everything else for a push", "µs")
		add("callbacks", "callbacks", "/s")
		add("callback_redis", "processor time of Redis for a callback", "µs")
		add("callback_rest", "processor time of everything else for a callback", "µs")
	}
	return list
}

// measureShards looks at what a job costs when there are more shards: the rates cannot grow, since all of them share
// the machine.
func measureShards(ctx context.Context, s *suite) (raw []Raw, err error) {
	for _, n := range shardCounts {
		err := s.on(ctx, func(in *installation) (err error) {
			stop, err := in.addShards(ctx, n-1)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stop()) }()
			some, err := s.shardCosts(ctx, in)
			raw = append(raw, some...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%d shards: %w", n, err)
		}
	}
	return raw, nil
}

func (s *suite) shardCosts(ctx context.Context, in *installation) (raw []Raw, err error) {
	far := topicName + ".far"
	if err := in.putTopic(ctx, far, s.endpoint.url("/count"), "active"); err != nil {
		return nil, err
	}
	b := batch{topic: far, token: in.token, size: batchSize, delay: between(time.Hour, 2*time.Hour)}
	before, err := in.used()
	if err != nil {
		return nil, err
	}
	pushed, err := s.batches(in.addr, b, batchConnections).run(ctx)
	if err != nil {
		return nil, err
	}
	after, err := in.used()
	if err != nil {
		return nil, err
	}
	raw = append(raw, Raw{Value: pushed.Rate * batchSize})
	raw = append(raw, after.since(before, pushed.All*batchSize)...)
	var begun cpuUse
	seen, _, err := s.deliver(ctx, in, func() (err error) { begun, err = in.used(); return err })
	if err != nil {
		return nil, err
	}
	if after, err = in.used(); err != nil {
		return nil, err
	}
	steady, _ := steadyRate(seen.Buckets)
	return append(append(raw, Raw{Value: steady}), after.since(begun, s.scale.callbacks)...), nil
}

// cpuUse is the processor time of an installation so far.
type cpuUse struct{ redis, rest time.Duration }

func (c cpuUse) since(b cpuUse, jobs int) []Raw {
	return []Raw{{Value: perRequest(c.redis-b.redis, jobs)}, {Value: perRequest(c.rest-b.rest, jobs)}}
}

func (in *installation) used() (c cpuUse, err error) {
	stats, err := readStats()
	if err != nil {
		return c, err
	}
	for p := range tree(stats, in.cmd.Process.Pid) {
		if stats[p].name == redisName {
			c.redis += stats[p].cpu
		} else {
			c.rest += stats[p].cpu
		}
	}
	for _, s := range in.servers {
		c.redis += stats[s.Process.Pid].cpu
	}
	return c, nil
}

// addShards starts redis-servers and adds them to the installation.
func (in *installation) addShards(ctx context.Context, n int) (stop func() error, err error) {
	stop = func() error {
		var errs []error
		for _, s := range in.servers {
			errs = append(errs, s.Process.Kill())
			_ = s.Wait() // it was killed
		}
		in.servers = nil
		return errors.Join(errs...)
	}
	for i := range n {
		if err := in.addShard(ctx, fmt.Sprintf("more-%d", i+1)); err != nil {
			return nil, errors.Join(err, stop())
		}
	}
	return stop, pause(ctx, time.Second) // every process has heard of them
}

func (in *installation) addShard(ctx context.Context, name string) error {
	dir := filepath.Join(in.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	socket := filepath.Join(dir, "s")
	server := exec.Command(
		redisName,
		"--port",
		"0",
		"--unixsocket",
		socket,
		"--dir",
		dir,
		"--appendonly",
		"yes",
		"--save",
		"",
	)
	if err := server.Start(); err != nil {
		return err
	}
	in.servers = append(in.servers, server)
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := until(ctx, 10*time.Millisecond, func() (bool, error) { return c.Ping(ctx).Err() == nil, nil }); err != nil {
		return err
	}
	add := exec.CommandContext(ctx, in.cmd.Path, "shard", "add", name, "--url", "unix://"+socket)
	add.Dir, add.Env = in.dir, in.cmd.Env
	if out, err := add.CombinedOutput(); err != nil {
		return fmt.Errorf("wakecall shard add %s: %w: %s", name, err, out)
	}
	return nil
}
