package app

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/alert/activity"
	"github.com/wakecall/wakecall/internal/alert/history"
	"github.com/wakecall/wakecall/internal/app/setup"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/master"
)

func (p *parts) newAdmin(l net.Listener) (role, error) {
	certificates, err := setup.Certificates("admin", p.cfg.Admin.TLSCert, p.cfg.Admin.TLSKey)
	if err != nil {
		return role{}, err
	}
	caller, err := p.newCaller()
	if err != nil {
		return role{}, err
	}
	o := p.adminOptions(caller)
	o.TLS = certificates
	a, err := admin.New(o)
	if err != nil {
		return role{}, err
	}
	return role{run: func(ctx context.Context) error { return a.Run(ctx, l) }}, nil
}

// adminOptions returns the settings and dependencies of the web admin's pages.
func (p *parts) adminOptions(caller *callback.Caller) admin.Options {
	reader := activity.NewReader(p.queue)
	return admin.Options{
		Queue: p.queue, Registry: p.registry, Editor: p.editedRegistry(), Accounts: account.NewStore(p.registry),
		SessionStore: account.NewSessions(p.registry.DB()), Master: master.At(p.cfg.DataDir), Config: p.cfg,
		Activity: reader, Caller: caller, BasePath: p.cfg.Admin.BasePath, TrustedProxies: p.cfg.Admin.TrustedProxies,
		ShutdownTimeout: p.cfg.ShutdownTimeout, Version: p.version, Log: p.log, Now: time.Now,

		History: &history.Reader{Store: history.NewStore(p.registry.DB())},
		Tasks:   bulk.NewStore(p.registry),
		WorkDir: filepath.Join(p.cfg.DataDir, "tasks"),
		Host:    setup.HostName(p.cfg), // two installations on one host must not take each other's tasks
		Weights: p.cfg.Priorities,
		Lead:    p.registry.DB().Lead,
		Alerts:  alert.NewStore(p.registry.DB()),
		Web:     caller.Client(),
		Lateness: func(ctx context.Context, share float64) (time.Duration, bool) {
			counts, err := reader.LatenessOfAll(ctx, time.Now().Add(-5*time.Minute))
			h := activity.Histogram(counts)
			return h.Quantile(share), err == nil && h.Count() > 0
		},
		Shares: func(ctx context.Context) ([3]int64, error) {
			return reader.ReserveCounts(ctx, time.Now().Add(-5*time.Minute))
		},
		APIURL:    setup.APIURL(p.cfg),
		AdminURL:  setup.PublicAdminURL(p.cfg),
		TokenFile: setup.TokenFile(p.cfg),
		OpenShard: func(ctx context.Context, s registry.Shard) (*queue.Shard, func(), error) {
			return setup.OpenShard(ctx, p.cfg, s)
		},
	}
}
