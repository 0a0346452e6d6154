package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/bulk"
	"github.com/wakecall/wakecall/callback"
	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
	"github.com/wakecall/wakecall/setup"
)

// overviewParts are what the pages of the overview, dead letters, shards, alerts and tasks work with.
func (p *parts) overviewParts(caller *callback.Caller) admin.OverviewParts {
	reader := activity.NewReader(p.queue)
	return admin.OverviewParts{
		History: &history.Reader{Store: history.NewStore(p.registry.DB())},
		Tasks:   bulk.NewStore(p.registry),
		WorkDir: filepath.Join(p.cfg.DataPath(), "tasks"),
		Host:    hostName(),
		Weights: p.cfg.Priorities,
		Lead:    p.registry.DB().Lead,
		Alerts:  alert.NewStore(p.registry.DB()),
		Web:     caller.Client(),
		Lateness: func(ctx context.Context, share float64) (time.Duration, bool) {
			h, err := reader.Lateness(ctx, "", time.Now().Add(-5*time.Minute))
			return h.Quantile(share), err == nil && h.Count() > 0
		},
		Shares: func(ctx context.Context) ([3]int64, error) {
			return reader.Reserved(ctx, time.Now().Add(-5*time.Minute))
		},
		APIURL:    "http://" + setup.Reachable(p.cfg.Server.Addr),
		AdminURL:  setup.PublicAdminURL(p.cfg),
		TokenFile: setup.TokenFile(p.cfg),
		OpenShard: func(ctx context.Context, s registry.Shard) (*queue.Shard, func(), error) {
			return setup.OpenShard(ctx, p.cfg, s)
		},
	}
}
