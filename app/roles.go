package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/wakecall/wakecall/activity"
	"github.com/wakecall/wakecall/callback"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/dispatcher"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/recovery"
	"github.com/wakecall/wakecall/registry"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/timer"
)

// The roles, by the names that they have on the command line and in the process titles.
const (
	RoleServer     = "server"
	RoleTimer      = "timer"
	RoleDispatcher = "dispatcher"
	RoleChecker    = "redis-checker"
	RoleAdmin      = "admin"
)

// role is a piece of work that runs until its context is done.
type role struct {
	run    func(context.Context) error
	status func() map[string]any // what `wakecall ps` shows of it; may be nil
}

// newRole makes a role. The server and the admin have a listener; the server wants to know whether a successor serves it already (nil: never).
func (p *parts) newRole(name string, l net.Listener, replaced func() bool) (role, error) {
	switch name {
	case RoleServer:
		return p.newServer(l, replaced)
	case RoleAdmin:
		return p.newAdmin(l)
	case RoleTimer:
		t := timer.New(timer.Options{
			Shards: shardsAs(p.queue, func(s *queue.Shard) timer.Shard { return s }), Changed: p.changed, Nudge: p.registry.Nudge,
			Exact: true, Logger: p.log, Registerer: p.metrics,
		})
		return role{run: t.Run}, nil
	case RoleDispatcher:
		return p.newDispatcher()
	case RoleChecker:
		return p.newChecker()
	}
	return role{}, fmt.Errorf("there is no role %q", name)
}

func (p *parts) newServer(l net.Listener, replaced func() bool) (role, error) {
	certificates, err := serverTLS(p.cfg)
	if err != nil {
		return role{}, err
	}
	s, err := server.New(server.Options{
		Jobs: p.jobs(), Registry: p.editedRegistry(),
		Healthy: p.journal.Accepting,
		Limits: server.Limits{
			MaxBody: int(p.cfg.Server.MaxBody), MaxConns: p.cfg.Server.MaxConnections, HeaderTimeout: p.cfg.Server.ReadHeaderTimeout,
			ReadTimeout: p.cfg.Server.ReadTimeout, IdleTimeout: p.cfg.Server.IdleTimeout,
		},
		TLS: certificates, ShutdownTimeout: p.cfg.ShutdownTimeout, Replaced: replaced, Version: p.version, Logger: p.log, Registerer: p.metrics,
	})
	if err != nil {
		return role{}, err
	}
	return role{run: func(ctx context.Context) error { return s.Run(ctx, l) }}, nil
}

func serverTLS(cfg *conf.Config) (*tls.Config, error) {
	if cfg.Server.TLSCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.Server.TLSCert, cfg.Server.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("server.tls_cert and server.tls_key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

func (p *parts) newDispatcher() (role, error) {
	caller, err := p.newCaller()
	if err != nil {
		return role{}, err
	}
	d := dispatcher.New(dispatcher.Options{
		Shards: shardsAs(p.queue, func(s *queue.Shard) dispatcher.Shard { return s }), Changed: p.changed, Nudge: p.registry.Nudge,
		Topics: p.registry.Snapshot, RegistryUp: p.registry.Up, Caller: caller, Journal: p.journal, Activity: activity.New(p.log), Concurrency: p.cfg.Dispatcher.Concurrency,
		Pattern: p.cfg.PriorityPattern(), ShutdownTimeout: p.cfg.ShutdownTimeout, Logger: p.log, Registerer: p.metrics,
	})
	return role{run: func(ctx context.Context) error {
		defer caller.Close()
		return d.Run(ctx)
	}, status: d.Status}, nil
}

// shardsAs lists the queue's shards as the interface that a role has of them.
func shardsAs[S any](q *queue.Queue, as func(*queue.Shard) S) func() []S {
	return func() []S {
		var list []S
		for _, s := range q.Shards() {
			list = append(list, as(s))
		}
		return list
	}
}

// jobs is the queue for the API, with the spool behind it when there is one.
func (p *parts) jobs() server.Jobs {
	if !p.cfg.SpoolOn() {
		return p.queue
	}
	return recovery.NewSpooledQueue(p.queue, recovery.NewSpool(p.cfg.JournalDir(), p.journal), p.journal.Accepting)
}

func (p *parts) topicNames() []string {
	topics := p.registry.Snapshot().Topics
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	return names
}

func init() {
	// Expressions are the callback package's, topics the registry's; the two do not know each other.
	registry.CheckRetryIf = func(source string) error {
		_, err := callback.CompileRetryIf(source)
		return err
	}
}
