package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/logging"
	"github.com/wakecall/wakecall/master/child"
	"github.com/wakecall/wakecall/setup"
)

// What the listening sockets are called between master and child.
const (
	apiSocket   = "api"
	adminSocket = "admin"
)

// socketOf is the name of a role's listening socket, empty for a role without one.
func socketOf(role string) string {
	switch role {
	case RoleServer:
		return apiSocket
	case RoleAdmin:
		return adminSocket
	}
	return ""
}

// ChildRoles are what a process can be that a master started.
func ChildRoles(version string) map[string]child.Role {
	roles := map[string]child.Role{}
	for _, name := range []string{RoleServer, RoleTimer, RoleDispatcher, RoleChecker, RoleAdmin} {
		roles[name] = func(ctx context.Context, c *child.Child) error { return runChild(ctx, c, version) }
	}
	return roles
}

// runChild is the life of a child process: its configuration and its socket come from the master, and the master shows its metrics.
func runChild(ctx context.Context, c *child.Child, version string) error {
	var cfg conf.Config
	if err := cfg.UnmarshalPrivate(c.Config); err != nil {
		return err
	}
	process := c.Role
	if c.Number > 0 {
		process = fmt.Sprintf("%s %d", c.Role, c.Number)
	}
	log := logging.New(&cfg, os.Stderr, process)
	if c.Role == RoleDispatcher {
		shareCores(cfg.Dispatchers)
	}
	p, err := openParts(ctx, &cfg, process, version, log)
	if err != nil {
		return err
	}
	err = p.serveChild(ctx, c)
	managed := setup.IsManaged(p.registry.Snapshot().Shards)
	err = errors.Join(err, p.close())
	if c.Orphaned() && managed {
		log.Warn("the master is gone; this process ended in an orderly way")
		// Everybody's work is in Redis by now, so its server ends, too, unless a new master has taken it over.
		err = errors.Join(err, child.StopOrphanedRedis(context.WithoutCancel(ctx), cfg.DataPath(), cfg.RedisSocket(), c.ShutdownTimeout))
	}
	return err
}

// shareCores divides the processors among processes that do the same work: more threads than that only hand it to and fro (5 % of a callback, two
// dispatchers on two cores). GOMAXPROCS says otherwise.
func shareCores(processes int) {
	if os.Getenv("GOMAXPROCS") == "" && processes > 1 {
		runtime.GOMAXPROCS((runtime.GOMAXPROCS(0) + processes - 1) / processes)
	}
}

func (p *parts) serveChild(ctx context.Context, c *child.Child) error {
	r, err := p.newRole(c.Role, c.Listeners[socketOf(c.Role)], c.Replaced)
	if err != nil {
		return err
	}
	c.SetGatherer(p.metrics)
	if r.status != nil {
		c.SetStatus(r.status)
	}
	c.Version = p.version
	c.Ready()
	return p.run(ctx, r.run)
}
