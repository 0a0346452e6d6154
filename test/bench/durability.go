package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const memoryPushes = "the same with durability memory"

var durabilityGroup = group{
	name: "durability", about: "single pushes that wait for a replica, beside those that do not",
	figures: []figure{
		{
			name:  "durability_replica",
			title: "single pushes of durability replica, 64 connections, replica on this machine",
			unit:  "/s", limit: memoryPushes,
		},
	},
	measure: measureDurability,
}

// measureDurability gives the installation's Redis a replica, which stays for all rows, and pushes to a topic of each
// durability.
func measureDurability(ctx context.Context, s *suite) (raw []Raw, err error) {
	err = s.on(ctx, func(in *installation) (err error) {
		stop, err := in.addReplica(ctx)
		if err != nil {
			return fmt.Errorf("starting a replica: %w", err)
		}
		defer func() { err = errors.Join(err, stop()) }()
		r, err := s.durabilityRow(ctx, in, "replica")
		if err != nil {
			return err
		}
		raw = append(raw, r)
		return nil
	})
	return raw, err
}

func (s *suite) durabilityRow(ctx context.Context, in *installation, d string) (Raw, error) {
	memory, err := s.durablePushes(ctx, in, "memory")
	if err != nil {
		return Raw{}, err
	}
	safe, err := s.durablePushes(ctx, in, d)
	return Raw{Value: safe.Rate, Limit: memory.Rate, Detail: map[string]any{d: safe, "memory": memory}}, err
}

func (s *suite) durablePushes(ctx context.Context, in *installation, durability string) (loadResult, error) {
	topic := topicName + "." + durability
	spec, err := json.Marshal(map[string]any{"callback_url": s.endpoint.url("/count"), "durability": durability})
	if err != nil {
		return loadResult{}, err
	}
	if _, _, err := in.api.PutTopicJSON(ctx, topic, spec); err != nil {
		return loadResult{}, err
	}
	l := s.pushLoad(in.addr, in.token)
	l.source = singlePushes(topic, in.token)
	return l.run(ctx)
}

// addReplica starts a replica of the installation's Redis, which has to listen on a port for that, and waits until the
// replica is in sync.
func (in *installation) addReplica(ctx context.Context) (stop func() error, err error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	_, master, _ := strings.Cut(ports[0], ":")
	_, port, _ := strings.Cut(ports[1], ":")
	settings := [][2]string{
		{"bind", "127.0.0.1"}, {"protected-mode", "no"}, {"repl-diskless-sync-delay", "0"}, {"port", master},
	}
	for _, set := range settings {
		if err := in.redis.ConfigSet(ctx, set[0], set[1]).Err(); err != nil {
			return nil, fmt.Errorf("CONFIG SET %s: %w", set[0], err)
		}
	}
	tool, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(in.dir, "replica")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	cmd := exec.Command(
		tool,
		"--bind",
		"127.0.0.1",
		"--port",
		port,
		"--dir",
		dir,
		"--save",
		"",
		"--replicaof",
		"127.0.0.1",
		master,
	)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		return err
	}
	if err := in.awaitReplica(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func (in *installation) awaitReplica(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return until(ctx, 20*time.Millisecond, func() (bool, error) {
		text, err := in.redis.Info(ctx, "replication").Result()
		return strings.Contains(text, "state=online"), err
	})
}
