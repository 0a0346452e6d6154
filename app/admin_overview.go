package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/account"
	"github.com/wakecall/wakecall/alert"
	"github.com/wakecall/wakecall/bulk"
	"github.com/wakecall/wakecall/callback"
	"github.com/wakecall/wakecall/history"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
	"github.com/wakecall/wakecall/setup"
)

// adminOptions are what the pages of the web admin work with.
func (p *parts) adminOptions(caller *callback.Caller) admin.Options {
	reader, users := activity.NewReader(p.queue), account.NewStore(p.registry)
	return admin.Options{
		Queue: p.queue, Registry: adminRegistry{p.editedRegistry(), users},
		Sessions: account.NewSessions(p.registry.DB()), TOTP: users, Master: masterOf(p.cfg.DataPath()), Config: p.cfg,
		Activity: reader, Caller: caller, BasePath: p.cfg.Admin.BasePath, TrustedProxies: p.cfg.Admin.Proxies(),
		ShutdownTimeout: p.cfg.ShutdownTimeout, Version: p.version, Logger: p.log,

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
