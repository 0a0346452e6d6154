package app

import (
	"context"
	"errors"
	"os"
	"runtime"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/master/child"
)

// ChildRoles returns the roles that a master runs as child processes.
func ChildRoles(version string) map[string]child.Role {
	roles := map[string]child.Role{}
	for _, name := range append(Roles(), RoleDev) {
		roles[name] = func(ctx context.Context, c *child.Child) error { return runChild(ctx, c, version) }
	}
	return roles
}

// runChild runs a role under a master, which passes it the configuration and sockets, and serves its metrics.
func runChild(ctx context.Context, c *child.Child, version string) error {
	cfg, err := conf.UnmarshalPrivate(c.Config, GatewayKeys())
	if err != nil {
		return err
	}
	process := c.Title()
	log := log.New(cfg, log.Stderr, process)
	if c.Role == RoleDispatcher {
		shareCores(cfg.Dispatchers)
	}
	p, err := openParts(ctx, cfg, process, version, log, registry.MigrateOlder)
	if err != nil {
		return err
	}
	p.bound = c.FreePorts
	err = p.serveChild(ctx, c)
	managed := setup.IsManaged(p.registry.Snapshot().Shards)
	err = errors.Join(err, p.close())
	if c.Orphaned() && managed {
		log.Warn("the master is gone; this process stopped gracefully")
		// All results are in Redis now. Stop the managed redis-server, too, unless a new master has adopted it.
		stopErr := child.StopOrphanedRedis(
			context.WithoutCancel(ctx), cfg.DataDir, cfg.RedisSocket(), c.ShutdownTimeout)
		err = errors.Join(err, stopErr)
	}
	return err
}

// status returns the role's status, the files that the process cannot write, and whether it refuses requests.
func (p *parts) status(r role) map[string]any {
	s := map[string]any{}
	if r.status != nil {
		s = r.status()
	}
	if err := p.journal.Healthy(); err != nil {
		s["journal"] = "cannot be written: " + err.Error()
	}
	if err := p.journal.Accepting(); err != nil {
		s["refuses"] = "no request is accepted: " + err.Error()
	}
	return s
}

// shareCores divides the CPU cores among the dispatchers. With more threads than cores, a callback cost 5 % more (two
// dispatchers on two cores). GOMAXPROCS takes precedence.
func shareCores(processes int) {
	if os.Getenv("GOMAXPROCS") == "" && processes > 1 {
		runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + processes - 1) / processes)
	}
}

func (p *parts) serveChild(ctx context.Context, c *child.Child) error {
	r, err := p.newRole(c.Role, c.Listeners, c.Replaced)
	if err != nil {
		return err
	}
	c.SetGatherer(p.metrics)
	c.SetStatus(func() map[string]any { return p.status(r) })
	c.Version = p.version
	return p.run(ctx, func(ctx context.Context) error { return r.serve(ctx, c.Ready) })
}

// serve runs the role, and calls ready when it serves.
func (r role) serve(ctx context.Context, ready func()) error {
	if r.ready == nil {
		ready()
		return r.run(ctx)
	}
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()
	select {
	case <-r.ready:
		ready()
	case err := <-ended:
		return err
	}
	return <-ended
}
