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
			list = append(list, figure{group: "shards", name: fmt.Sprintf("shards_%d_%s", n, name), title: fmt.Sprintf("%d shards: %s", n, title), unit: unit})
		}
		add("push", "batch pushes, ids of the caller", "jobs/s")
		add("push_cpu", "processor time of a push, Redis and all", "µs")
		add("callbacks", "callbacks", "/s")
		add("callback_cpu", "processor time of a callback, Redis and all", "µs")
	}
	return list
}

// measureShards looks at what a job costs when there are more shards: the rates cannot grow, since all of them share the machine.
func measureShards(ctx context.Context, s *suite) (raw []Raw, err error) {
	for _, n := range shardCounts {
		err := s.on(ctx, func(in *installation) (err error) {
			cpu, stop, err := in.addShards(ctx, n-1)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, stop()) }()
			some, err := s.shardCosts(ctx, in, cpu)
			raw = append(raw, some...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%d shards: %w", n, err)
		}
	}
	return raw, nil
}

func (s *suite) shardCosts(ctx context.Context, in *installation, redisCPU func() (time.Duration, error)) ([]Raw, error) {
	if err := in.putTopic(ctx, topicName+".far", s.endpoint.url("/count"), "active"); err != nil {
		return nil, err
	}
	before, err := redisCPU()
	if err != nil {
		return nil, err
	}
	b := batch{topic: topicName + ".far", token: in.token, size: batchSize, delay: between(time.Hour, 2*time.Hour)}
	pushed, push, err := in.load(ctx, load{
		addr: in.addr, conns: batchConnections, warmUp: s.scale.warmUp, duration: s.scale.load, source: b.source, check: noErrors,
	})
	if err != nil {
		return nil, err
	}
	between, err := redisCPU()
	if err != nil {
		return nil, err
	}
	seen, callback, err := s.deliver(ctx, in)
	if err != nil {
		return nil, err
	}
	after, err := redisCPU()
	steady, _ := steadyRate(seen.Buckets)
	return []Raw{
		{Value: pushed.Rate * batchSize}, {Value: push/batchSize + perRequest(between-before, pushed.All*batchSize)},
		{Value: steady}, {Value: callback + perRequest(after-between, s.scale.callbacks)}, // deliver's own pushes make the second a little too large
	}, err
}

// addShards starts redis-servers and adds them to the installation. cpu is what they have used.
func (in *installation) addShards(ctx context.Context, n int) (cpu func() (time.Duration, error), stop func() error, err error) {
	var servers []*exec.Cmd
	stop = func() error {
		var errs []error
		for _, s := range servers {
			errs = append(errs, s.Process.Kill())
			_ = s.Wait() // it was killed
		}
		return errors.Join(errs...)
	}
	cpu = func() (total time.Duration, err error) {
		stats, err := readStats()
		for _, s := range servers {
			total += stats[s.Process.Pid].cpu
		}
		return total, err
	}
	for i := range n {
		server, err := in.addShard(ctx, fmt.Sprintf("more-%d", i+1))
		if server != nil {
			servers = append(servers, server)
		}
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
	}
	return cpu, stop, pause(ctx, time.Second) // every process has heard of them
}

func (in *installation) addShard(ctx context.Context, name string) (*exec.Cmd, error) {
	dir := filepath.Join(in.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--appendonly", "yes", "--save", "")
	if err := server.Start(); err != nil {
		return nil, err
	}
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := until(ctx, 10*time.Millisecond, func() (bool, error) { return c.Ping(ctx).Err() == nil, nil }); err != nil {
		return server, err
	}
	add := exec.CommandContext(ctx, in.cmd.Path, "shard", "add", name, "--url", "unix://"+socket)
	add.Dir, add.Env = in.dir, in.cmd.Env
	if out, err := add.CombinedOutput(); err != nil {
		return server, fmt.Errorf("wakecall shard add %s: %w: %s", name, err, out)
	}
	return server, nil
}
