package main

import (
	"context"
	"time"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/checker"
)

// newAlerts watches what c and the queue's numbers say, and tells people.
func (p *parts) newAlerts(c *checker.Checker) *alert.Alerts {
	watch := alert.NewWatch(alert.Sources{
		Queue: p.queue, Activity: activity.NewReader(p.queue), Snapshot: p.registry.Snapshot, RegistryUp: p.registry.Up, Journal: p.journal.Probe,
		Shards: func() []alert.ShardFinding { return shardFindings(c) },
	})
	return alert.New(alert.Options{
		Store:    p.registry,
		Settings: func() (alert.Settings, error) { return alert.Read(p.registry.Snapshot()) },
		Find:     watch.Find,
		Dead:     p.oneHosts(watch.Dead),
		Host:     hostName(), AdminURL: adminURL(p.cfg), Logger: p.log, Registerer: p.metrics,
	})
}

func shardFindings(c *checker.Checker) []alert.ShardFinding {
	var list []alert.ShardFinding
	for _, f := range c.Findings() {
		list = append(list, alert.ShardFinding{Shard: f.Shard, Kind: string(f.Kind), Detail: f.Detail})
	}
	return list
}

// digestLease lets the host that mails digests miss a round.
const digestLease = 3 * time.Minute

// oneHosts has one host of an installation tell of dead jobs. All look, so that another one can go on where it stopped; while the registry's
// database is away, the last one goes on.
func (p *parts) oneHosts(dead func(context.Context) []alert.Dead) func(context.Context) []alert.Dead {
	mine := false
	return func(ctx context.Context) []alert.Dead {
		if leads, err := p.registry.Lead(ctx, "digests", hostName(), digestLease); err == nil {
			mine = leads
		}
		list := dead(ctx)
		if !mine {
			return nil
		}
		return list
	}
}
