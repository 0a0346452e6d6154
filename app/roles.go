package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/dispatcher"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/activity"
	"github.com/wakecall/wakecall/internal/queue/answers"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/quota"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/timer"
)

// Names of roles on the command line and in process titles.
const (
	RoleServer     = "server"
	RoleTimer      = "timer"
	RoleDispatcher = "dispatcher"
	RoleChecker    = "redis-checker"
	RoleAdmin      = "admin"
	RoleGateway    = "gateway"
)

// Roles returns the names of all roles.
func Roles() []string {
	return []string{RoleServer, RoleTimer, RoleDispatcher, RoleChecker, RoleAdmin, RoleGateway}
}

// listeners returns the sockets that a role listens on.
func listeners(cfg *conf.Config, role string) []master.ListenSpec {
	switch role {
	case RoleServer, RoleDev:
		return []master.ListenSpec{{Name: "api", Key: "server.addr", Addr: cfg.Server.Addr}}
	case RoleAdmin:
		return []master.ListenSpec{{Name: "admin", Key: "admin.addr", Addr: cfg.Admin.Addr}}
	case RoleGateway:
		return gatewayListeners(cfg)
	}
	return nil
}

// healthURL returns the URL that answers 200 while a role serves its clients; "" if it has none.
func healthURL(cfg *conf.Config, role string) string {
	switch role {
	case RoleServer, RoleDev:
		return setup.APIURL(cfg) + "/healthz"
	case RoleAdmin:
		return setup.AdminURL(cfg) + "healthz"
	}
	return ""
}

// MasterOptions returns the options of a master.
func MasterOptions(cfg *conf.Config, version string, shards []registry.Shard) (master.Options, error) {
	config, err := cfg.MarshalPrivate()
	if err != nil {
		return master.Options{}, err
	}
	o := master.Options{
		Version: version, DataDir: cfg.DataDir, ShutdownTimeout: cfg.ShutdownTimeout, MetricsAddr: cfg.Metrics.Addr,
		API: setup.APIURL(cfg),
		Redis: master.RedisOptions{
			Managed: setup.IsManaged(shards), Binary: cfg.Redis.Binary, Dir: cfg.RedisDir(), Socket: cfg.RedisSocket(),
			MaxMemory: cfg.Redis.MaxMemory,
		},
	}
	processes := map[string]int{RoleTimer: cfg.Timers, RoleDispatcher: cfg.Dispatchers}
	for _, name := range Roles() {
		n, numbered := processes[name]
		sockets := listeners(cfg, name)
		switch {
		case name == RoleGateway:
			n = min(1, len(sockets)) // nothing to serve without an address
		case !numbered:
			n = 1
		}
		o.Roles = append(o.Roles, master.RoleSpec{
			Name: name, Count: n, Numbered: numbered, Config: config, Listeners: sockets,
			Health: healthURL(cfg, name),
		})
	}
	return o, nil
}

// role is work that runs until its context is done.
type role struct {
	run    func(context.Context) error
	ready  <-chan struct{}       // closed when it serves; nil: as soon as it runs
	status func() map[string]any // shown by `wakecall ps`; may be nil
}

// newRole builds a role with its listeners by name. replaced reports whether a successor already serves them; nil:
// there is no successor.
func (p *parts) newRole(name string, l map[string]net.Listener, replaced func() bool) (role, error) {
	switch name {
	case RoleServer:
		return p.newServer(l["api"], replaced)
	case RoleDev:
		return p.newDev(l["api"])
	case RoleAdmin:
		return p.newAdmin(l["admin"])
	case RoleGateway:
		return p.newGateway(l, replaced)
	case RoleTimer:
		return p.newTimer(), nil
	case RoleDispatcher:
		return p.newDispatcher()
	case RoleChecker:
		return p.newChecker()
	}
	return role{}, fmt.Errorf("unknown role %q", name)
}

func (p *parts) newServer(l net.Listener, replaced func() bool) (role, error) {
	certificates, err := setup.Certificates("server", p.cfg.Server.TLSCert, p.cfg.Server.TLSKey)
	if err != nil {
		return role{}, err
	}
	searcher, err := p.newSearcher()
	if err != nil {
		return role{}, err
	}
	alerts, err := p.alerts()
	if err != nil {
		return role{}, err
	}
	waiting := answers.New(answers.Options{Buckets: p.queue.Shards.Buckets, Changed: p.shardsChanged()})
	tasks := p.taskRunner()
	o := server.Options{
		Jobs: p.jobs(), Groups: p.queue, Relays: p.relays(), Schedules: p.schedules(), Tasks: tasks,
		Meter: quota.New(p.queue, p.log), Uses: p.tokenUses, Waits: p.figures(), Workers: p.pull,
		Answers:  waiting,
		Search:   searcher,
		Registry: p.editedRegistry(),
		Healthy:  p.journal.Accepting,
		Refused:  p.refused.Add,
		Forecast: p.forecaster(), Alerts: alerts,
		Limits: server.Limits{
			MaxBody: int(p.cfg.Server.MaxBody), MaxConns: p.cfg.Server.MaxConnections,
			HeaderTimeout: p.cfg.Server.ReadHeaderTimeout, ReadTimeout: p.cfg.Server.ReadTimeout,
			IdleTimeout: p.cfg.Server.IdleTimeout, MaxTopics: p.cfg.Pull.TopicsPerRequest,
			MaxSchedules: p.cfg.Schedules.PerToken,
		},
		TLS: certificates, ShutdownTimeout: p.cfg.ShutdownTimeout, Replaced: replaced, Version: p.version,
		Logger: p.log, Registerer: p.metrics, MetricTopics: p.cfg.Metrics.Topics, Now: p.queue.Now,
	}
	if p.dev != nil {
		o.Dev = p.dev
	}
	s, err := server.New(o)
	if err = errors.Join(err, p.countWorkers(), p.showExpiry("server", certificates)); err != nil {
		return role{}, err
	}
	ready := make(chan struct{})
	return role{ready: ready, run: func(ctx context.Context) error {
		defer p.start(ctx, service{"waiting pushes", waiting.Run})()
		p.awaitShards(ctx)
		close(ready)
		working, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { _ = tasks.Run(working) })
		defer wg.Wait()
		defer stop()
		return s.Run(ctx, l)
	}}, nil
}

// tokenUses returns what tokens use of their quotas.
func (p *parts) tokenUses(ctx context.Context, tokens []*registry.Token) map[uint64]*registry.Quotas {
	return quota.Used(ctx, p.queue, tokens)
}

// countWorkers shows the number of waiting workers of this process in /metrics.
func (p *parts) countWorkers() error {
	return p.metrics.Register(gauge("wakecall_waiting_workers", "Workers waiting for jobs of pull topics.",
		func() float64 { return float64(p.pull.Workers()) }))
}

// showExpiry shows in /metrics when the certificate of a listener expires, if it has one.
func (p *parts) showExpiry(listener string, c *tls.Config) error {
	if c == nil {
		return nil
	}
	expiry := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "wakecall_certificate_expiry_timestamp_seconds", Help: "When the certificate of a listener expires.",
	}, []string{"listener"})
	expiry.WithLabelValues(listener).Set(float64(c.Certificates[0].Leaf.NotAfter.Unix()))
	return p.metrics.Register(expiry)
}

// shardsLimit is how long a starting server waits for a Redis that is starting, too.
const shardsLimit = 3 * time.Second

// awaitShards waits until a shard accepts pushes. After its start, a Redis first loads its data and is compared with
// the journals. A server that accepted connections meanwhile would reject pushes.
func (p *parts) awaitShards(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, shardsLimit)
	defer cancel()
	var un *store.UnavailableError
	for errors.As(p.queue.Ready(), &un) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// jobs returns the queue for the API and the gateways, backed by the spool if there is one.
func (p *parts) jobs() interface {
	server.Jobs
	gateway.Jobs
} {
	if !p.cfg.Spool {
		return p.queue
	}
	return reconcile.NewSpooledQueue(p.queue, reconcile.NewSpool(p.cfg.JournalDir(), p.journal), p.journal.Accepting)
}

func (p *parts) newTimer() role {
	t := timer.New(timer.Options{
		Buckets: listAs(p.queue.Shards.Buckets, func(b *store.Bucket) timer.Bucket { return b }),
		Changed: p.shardsChanged(), Exact: true, Logger: p.log, Registerer: p.metrics,
	})
	schedules := p.recurring()
	return role{run: func(ctx context.Context) error {
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() { schedules.Run(ctx) })
		return t.Run(ctx)
	}}
}

// recurring returns what pushes the occurrences of schedules.
func (p *parts) recurring() *recurring.Runner {
	return recurring.NewRunner(recurring.Options{
		Queue: p.queue, Registry: p.registry, Changed: p.shardsChanged(), Accepting: p.journal.Accepting,
		Logger: p.log, Registerer: p.metrics,
	})
}

// schedules returns what reads and changes schedules.
func (p *parts) schedules() *recurring.Schedules { return recurring.New(p.queue, p.registry) }

func (p *parts) newDispatcher() (role, error) {
	caller, err := p.newCaller()
	if err != nil {
		return role{}, err
	}
	d := p.dispatcher(caller)
	return role{run: func(ctx context.Context) error {
		defer caller.Close()
		return d.Run(ctx)
	}, status: d.Status}, nil
}

func (p *parts) dispatcher(caller *callback.Caller) *dispatcher.Dispatcher {
	return dispatcher.New(dispatcher.Options{
		Buckets: listAs(p.queue.Shards.Buckets, func(b *store.Bucket) dispatcher.Bucket {
			return observe.Bucket{Bucket: b}
		}),
		Changed: p.shardsChanged(), Refresh: p.registry.Refresh, Topics: p.registry.Snapshot,
		Deleted: p.registry.TopicDeleted,
		Caller:  caller, Journal: p.journal, Activity: activity.New(p.log), Concurrency: p.cfg.Dispatcher.Concurrency,
		Pattern: dispatcher.Pattern(p.cfg.Priorities), ShutdownTimeout: p.cfg.ShutdownTimeout, Logger: p.log,
		Registerer:   p.metrics,
		MetricTopics: p.cfg.Metrics.Topics,
	})
}

// newCaller returns the client for URLs configured by users: endpoints, and webhooks of alerts.
func (p *parts) newCaller() (*callback.Caller, error) {
	own := newOwnListeners(p.cfg, p.bound, p.registry.Snapshot)
	return callback.New(callback.Options{
		Networks: p.cfg.Callback.Networks, Version: p.version, Listener: own.at,
	})
}

// listAs returns a function that lists the queue's shards or buckets as a role's interface.
func listAs[S, R any](list func() []S, as func(S) R) func() []R {
	return func() (converted []R) {
		for _, s := range list() {
			converted = append(converted, as(s))
		}
		return converted
	}
}

func (p *parts) topicNames() []string { return p.registry.Snapshot().Topics.Names() }

// hasTopic reports whether a topic has settings: its own, or its namespace's.
func (p *parts) hasTopic(name string) bool { return p.registry.Snapshot().Topic(name) != nil }

// hasSeries reports whether a topic has its own metrics series: topics in a namespace share the namespace's.
func (p *parts) hasSeries(name string) bool { return p.registry.Snapshot().Topics.Get(name) != nil }
