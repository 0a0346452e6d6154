package app

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/bulk"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/observe/history"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
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
	searcher, err := p.newSearcher()
	if err != nil {
		return role{}, err
	}
	o := p.adminOptions(caller)
	if o.SignIn, err = setup.SignIn(p.cfg); err != nil {
		return role{}, err
	}
	o.Search = searcher
	o.TLS = certificates
	a, err := admin.New(o)
	if err = errors.Join(err, p.showExpiry("admin", certificates)); err != nil {
		return role{}, err
	}
	return role{run: func(ctx context.Context) error { return a.Run(ctx, l) }}, nil
}

// adminOptions returns the settings and dependencies of the web admin's pages.
func (p *parts) adminOptions(caller *callback.Caller) admin.Options {
	return admin.Options{
		Queue: p.figures(), Registry: p.registry, Editor: p.editedRegistry(),
		Schedules: p.schedules(), Accounts: account.NewStore(p.registry),
		Sessions: account.NewSessions(p.registry.DB()), Master: master.At(p.cfg.DataDir), Config: p.cfg,
		Activity: activity.NewReader(p.figures()), Caller: caller, BasePath: p.cfg.Admin.BasePath,
		Proxies:         p.cfg.Admin.TrustedProxies,
		ShutdownTimeout: p.cfg.ShutdownTimeout, Version: p.version, Log: p.log, Now: time.Now,

		History:   &history.Reader{Store: history.NewStore(p.registry.DB())},
		Refused:   p.lastRefused,
		Relays:    p.relays().List,
		Tasks:     p.taskRunner(),
		TokenUses: p.tokenUses,
		Host:      setup.HostName(p.cfg),
		Alerts:    alert.NewStore(p.registry.DB()).In(p.cfg.DataDir),
		Web:       caller.Client(),
		APIURL:    setup.APIURL(p.cfg),
		AdminURL:  setup.PublicAdminURL(p.cfg),
		TokenFile: setup.TokenFile(p.cfg),
		OpenShard: func(ctx context.Context, s registry.Shard) (*store.Shard, func(), error) {
			return setup.TryShard(ctx, p.cfg, s)
		},
	}
}

// taskRunner returns the runner of this host's bulk tasks.
func (p *parts) taskRunner() *bulk.Runner {
	return bulk.NewRunner(bulk.Options{
		Storage: bulk.NewStore(p.registry), Queue: p.queue, Registry: p.registry,
		Dir:  filepath.Join(p.cfg.DataDir, "tasks"),
		Host: setup.HostName(p.cfg), // two installations on one host must not run each other's tasks
		Lead: p.registry.DB().Lead, Log: p.log, Now: time.Now,
	})
}
