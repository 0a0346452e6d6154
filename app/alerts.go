package app

import (
	"net/http"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/checker"
)

// newAlerts watches what c and the queue's numbers say, and tells people.
func (p *parts) newAlerts(c *checker.Checker, web *http.Client) *alert.Alerts {
	watch := alert.NewWatch(alert.Sources{
		Queue: p.queue, Activity: activity.NewReader(p.queue), Snapshot: p.registry.Snapshot, RegistryUp: p.registry.Up, Journal: p.journal.Probe,
		Shards: func() []alert.ShardFinding { return shardFindings(c) }, ClaimDeaths: p.registry.ClaimDeaths,
	})
	return alert.New(alert.Options{
		Store:    p.registry,
		Settings: func() (alert.Settings, error) { return alert.Read(p.registry.Snapshot()) },
		Find:     watch.Find,
		Dead:     watch.Dead,
		Host:     hostName(), AdminURL: publicAdminURL(p.cfg), Web: web, Logger: p.log, Registerer: p.metrics,
	})
}

func shardFindings(c *checker.Checker) []alert.ShardFinding {
	var list []alert.ShardFinding
	for _, f := range c.Findings() {
		list = append(list, alert.ShardFinding{Shard: f.Shard, Kind: string(f.Kind), Detail: f.Detail})
	}
	return list
}
