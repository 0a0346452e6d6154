package app

import (
	"context"
	"os"
	"time"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/beat"
	"github.com/wakecall/wakecall/checker"
	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
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
		Lateness: p.lateness, Topics: p.topicNames,
		Shards: func() []history.ShardReading { return shardReadings(c) },
	})
}

// lateness is how late callbacks of a topic (of all for "") were since a time.
func (p *parts) lateness(ctx context.Context, topic string, since time.Time) (history.Lateness, error) {
	h, err := activity.NewReader(p.queue).Lateness(ctx, topic, since)
	if err != nil && !queue.IsPartial(err) {
		return history.Lateness{}, err
	}
	return history.Lateness{Count: h.Count(), P50: h.Quantile(0.5), P99: h.Quantile(0.99)}, nil
}

func shardReadings(c *checker.Checker) []history.ShardReading {
	var list []history.ShardReading
	for _, v := range c.Seen() {
		list = append(list, history.ShardReading{
			Name: v.Name, Up: v.Up, P50: v.P50, P99: v.P99, Memory: v.Health.Memory, MaxMemory: v.Health.MaxMemory, Jobs: v.Health.Jobs,
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

// rotationsEvery is how late an old secret may be dropped.
const rotationsEvery = 30 * time.Second

// endRotations drops old signing secrets when their overlap is over, also while nobody looks at the web admin.
func (p *parts) endRotations(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(beat.In(rotationsEvery)):
		}
		if !p.registry.Up() {
			continue
		}
		if err := p.registry.EndRotations(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.log.Warn("old signing secrets could not be dropped; trying again", "error", err)
		}
	}
}
