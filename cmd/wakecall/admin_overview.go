package main

import (
	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
)

// overviewParts are what the pages of the overview, dead letters, shards, alerts and tasks work with.
func (p *parts) overviewParts() admin.OverviewParts {
	return admin.OverviewParts{
		History:   &history.Reader{Store: p.registry},
		Tasks:     admin.RegistryTasks(p.registry),
		Host:      hostName(),
		Alerts:    p.registry,
		APIURL:    "http://" + reachable(p.cfg.Server.Addr),
		TokenFile: tokenFile(p.cfg),
		ResolveShard: func(s registry.Shard) queue.ShardConfig {
			s.State = registry.ShardActive // to be tried
			return shardConfigs(p.cfg, []registry.Shard{s})[0]
		},
	}
}
