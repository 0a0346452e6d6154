package main

import (
	"context"
	"os"

	"github.com/wakecall/wakecall/checker"
	"github.com/wakecall/wakecall/history"
)

// hostName is how this host is called where several share a registry.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// newSampler makes what takes samples for the charts, beside the checker.
func (p *parts) newSampler(c *checker.Checker) *history.Sampler {
	return history.New(history.Options{
		Source: p.queue, Store: p.registry, Host: hostName(), Logger: p.log,
		Topics: p.topicNames,
		Shards: func() []history.ShardReading { return shardReadings(c) },
	})
}

func shardReadings(c *checker.Checker) []history.ShardReading {
	var list []history.ShardReading
	for _, v := range c.Seen() {
		list = append(list, history.ShardReading{
			Name: v.Name, Up: v.Up, P50: v.Ping, P99: v.Ping, Memory: v.Health.Memory, MaxMemory: v.Health.MaxMemory, Jobs: v.Health.Jobs,
		})
	}
	return list
}

// both runs two parts of a role until ctx is done, or until one of them fails.
func both(a, b func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		first := make(chan error, 1)
		go func() {
			defer cancel()
			first <- a(ctx)
		}()
		err := b(ctx)
		cancel()
		if firstErr := <-first; firstErr != nil {
			return firstErr
		}
		return err
	}
}
