package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/observe/refusals"
	"github.com/wakecall/wakecall/internal/observe/relays"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/queue/devclock"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// parts are what every role needs to work.
type parts struct {
	cfg      *conf.Config
	version  string
	bound    map[string]string // addresses of the host's listeners whose configured port is 0, by key
	log      *slog.Logger
	metrics  *prometheus.Registry
	journal  *journal.Journal
	registry *registry.Registry
	pull     *pull.Hub
	refused  *refusals.Recorder
	queue    *queue.Queue        // follows the registry's snapshot
	shards   []store.ShardConfig // the queue's current shards
	ticks    []chan struct{}     // see shardsChanged
	changes  *registry.Subscription

	clock *devclock.Clock // of an installation for tests, and what moves it
	dev   *devclock.Driver

	// recovered reports what the journal's lines did in a shard that had lost writes; nil except in the redis-checker,
	// which raises an alert.
	recovered func(shard string, r reconcile.Report, err error)

	tunesGC      bool
	limitsMemory bool
	setsLimits   bool // sets the limits of all topics after a change of shards; others set only changed limits
	topics       int  // number of topics when the garbage collector was last tuned
}

// openParts opens everything that a process needs. name is the process's name in its log and in the journal. The
// registry's database may be unavailable if there is a snapshot on disk.
func openParts(
	ctx context.Context, cfg *conf.Config, process, version string, log *slog.Logger, migrate registry.Migrate,
) (*parts, error) {
	setDialects(cfg)
	p := &parts{cfg: cfg, version: version, log: log, metrics: newMetrics()}
	p.tunesGC, p.setsLimits = os.Getenv("GOGC") == "", strings.HasPrefix(process, RoleTimer)
	p.limitsMemory = os.Getenv("GOMEMLIMIT") == "" && process == RoleChecker
	if err := p.open(process, migrate); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.showHealth()
	p.apply(ctx)
	return p, nil
}

// Live memory that tuneGC assumes, and the heap that it allows beyond that.
const (
	liveBase     = 12 << 20
	livePerTopic = 700
	heapTarget   = 160 << 20
)

// memoryLimit returns the memory limit of a redis-checker, which uses much memory while it compares a journal with a
// shard. It also keeps data about each topic with recent calls, so a lower limit would leave it time for nothing but
// garbage collection.
func memoryLimit(topics int) int64 { return 208<<20 + 2048*int64(topics) }

// tuneGC makes Go collect garbage less often. A process with few topics has a few live megabytes but allocates much, so
// that collections took a tenth of its CPU time. With 100,000 topics the same setting would take 400 MiB, so it depends
// on their number. GOGC takes precedence.
func (p *parts) tuneGC(topics int) {
	if p.limitsMemory {
		debug.SetMemoryLimit(memoryLimit(topics))
	}
	if p.tunesGC {
		live := liveBase + livePerTopic*topics
		debug.SetGCPercent(max(50, min(400, 100*heapTarget/live-100)))
	}
}

// patience is the least time limit of a Redis command in timers and dispatchers, in which no client waits for it: calls
// go on while answers take up to 2 s. A script begins within three quarters of the limit, and that by a reading of
// Redis's clock that is as old as an answer takes.
const patience = 5 * time.Second

func (p *parts) open(process string, migrate registry.Migrate) (err error) {
	p.journal, err = journal.Open(journal.Options{
		Dir: p.cfg.JournalDir(), Keep: p.cfg.Journal.Keep, Process: process, Sync: p.cfg.Journal.Sync, Logger: p.log,
	})
	if err != nil {
		return err
	}
	p.log = log.Journaled(p.log, p.journal)
	recorder := reconcile.Recorder{Journal: p.journal}
	timeout := p.cfg.Redis.Timeout
	if strings.HasPrefix(process, RoleTimer) || strings.HasPrefix(process, RoleDispatcher) {
		timeout = max(timeout, patience)
	}
	p.refused = refusals.NewRecorder(p.log)
	var standing func() time.Time
	if process == RoleDev {
		p.clock = devclock.NewClock(time.Now())
		standing = p.clock.Now
	}
	p.queue = queue.Open(store.Options{
		Refused: p.refused.Add,
		Timeout: timeout, PoolSize: p.cfg.Redis.PoolSize, Buckets: p.cfg.Redis.Buckets, Logger: p.log,
		Accepted: recorder.Accepted, Changed: recorder.Changed, Grouped: recorder.Grouped,
		Scheduled: recorder.Scheduled, Ended: recorder.Ended,
		Durability: p.durability,
		Remembers:  p.remembers, Pinned: p.pinned, ShardOf: p.shardOf,
		Announced: func() { p.registry.Nudge() }, // the registry is opened before the queue has shards
		Host:      setup.HostName(p.cfg), Settings: setup.CommonSettings(p.cfg),
		AwaitCompared: awaitsCompared(process), StandingClock: standing,
	})
	if p.registry, err = setup.OpenRegistry(p.cfg, p.log, migrate, p.queue.Shards.Announce); err == nil {
		p.changes = p.registry.Subscribe()
		p.pull = pull.New(pull.Options{
			Queue: p.queue, Changed: p.shardsChanged(), Topics: p.registry.Snapshot, Logger: p.log,
			Limits: pull.Limits{
				Token: p.cfg.Pull.TopicsPerToken, Namespace: p.cfg.Pull.TopicsPerNamespace,
				Gateway: p.cfg.Pull.TopicsPerGateway,
			},
		})
	}
	return err
}

// awaitCompared is how long a client's request waits for a shard that was started and is being compared with the
// journals, which usually takes 0.1 s, before it is answered 503.
const awaitCompared = 3 * time.Second

func awaitsCompared(process string) time.Duration {
	if process == RoleServer || process == RoleDev || process == RoleGateway || process == RoleAdmin {
		return awaitCompared
	}
	return 0
}

func newMetrics() *prometheus.Registry {
	m := prometheus.NewRegistry()
	m.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		log.Stderr.Dropped())
	return m
}

// showHealth shows in /metrics whether this process reaches its journal and the registry's database.
func (p *parts) showHealth() {
	p.metrics.MustRegister(
		gauge("wakecall_journal_writable", "1 unless the last write of this process to the journal failed.",
			func() float64 { return oneIf(p.journal.Healthy() == nil) }),
		gauge("wakecall_registry_up", "1 while the registry's database answers this process.",
			func() float64 { return oneIf(p.registry.Up()) }),
	)
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// run runs a role until it ends. The services that it depends on stop after the role, so that they are available during
// its graceful stop, and the reconciler after them: the last process of a host then says that the host has stopped.
func (p *parts) run(ctx context.Context, role func(context.Context) error) error {
	k, err := p.newKeeper()
	if err != nil {
		return err
	}
	stopKeeper := p.start(ctx, service{"journal comparison", k.Run})
	defer stopKeeper()
	stop := p.start(ctx,
		service{"registry", p.registry.Run}, service{"journal housekeeping", p.journal.RunHousekeeping},
		service{"shards and topics", p.follow}, service{"waiting workers", p.pull.Run},
		service{"memory", giveBack(restAfter)},
		service{"refused pushes", func(ctx context.Context) error { return p.refused.Run(ctx, p.registry.DB()) }})
	defer stop()
	return role(ctx)
}

// start runs services until stop is called, which waits for them.
func (p *parts) start(ctx context.Context, list ...service) (stop func()) {
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := newServices(p.log).run(background, list...); err != nil {
			p.log.Error("background service failed", "error", err)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// newKeeper returns a Reconciler, which replays the journal into shards that lost writes.
func (p *parts) newKeeper() (*reconcile.Reconciler, error) {
	return reconcile.NewReconciler(reconcile.ReconcilerOptions{
		Dir: p.cfg.JournalDir(), Buckets: p.queue.Shards.Buckets, Changed: p.shardsChanged(), Queue: p.queue,
		Reported: p.recovered,
		Limit: func(ctx context.Context, b *store.Bucket) error {
			return p.queue.Shards.LimitBucket(ctx, b, p.allTopicConfs)
		},
		Prefer: p.recovered != nil, Logger: p.log, Registerer: p.metrics,
	})
}

// close closes what was opened, in reverse order.
func (p *parts) close() error {
	var errs []error
	if p.registry != nil {
		errs = append(errs, p.registry.Close())
	}
	if p.queue != nil {
		errs = append(errs, p.queue.Close())
	}
	if p.journal != nil {
		errs = append(errs, p.journal.Close())
	}
	return errors.Join(errs...)
}

// shardsChanged returns a channel that receives after the queue's shards have changed. It must be called before run.
func (p *parts) shardsChanged() <-chan struct{} {
	tick := make(chan struct{}, 1)
	p.ticks = append(p.ticks, tick)
	return tick
}

// follow passes the shards and topics of every new snapshot to the queue.
func (p *parts) follow(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changes.Changed:
			p.apply(ctx)
		}
	}
}

// applyLimit is how long a shard that does not answer may delay the next change.
const applyLimit = 5 * time.Second

func (p *parts) apply(ctx context.Context) {
	names, snapshot := p.changes.Topics()
	set := func(ctx context.Context) error { return p.queue.SetTopics(ctx, nil, topicConfs(snapshot, names)...) }
	if shards := setup.ShardConfigs(p.cfg, snapshot.Shards); !slices.Equal(shards, p.shards) {
		if err := p.queue.Shards.Set(shards); err != nil {
			p.log.Error("cannot use a shard of the registry", "error", err)
		}
		p.shards = shards
		for _, tick := range p.ticks {
			select {
			case tick <- struct{}{}:
			default:
			}
		}
		if p.setsLimits {
			set = func(ctx context.Context) error { return p.queue.SetTopics(ctx, p.allTopicConfs) }
		}
	}
	if n := snapshot.Topics.Len(); p.topics == 0 || n > 2*p.topics || 2*n < p.topics {
		p.tuneGC(n)
		p.topics = max(n, 1)
	}
	ctx, cancel := context.WithTimeout(ctx, applyLimit)
	defer cancel()
	if err := set(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.log.Warn("limits of topics not stored in every shard; retrying when the shard answers", "error", err)
	}
}

func topicConfs(s *registry.Snapshot, names []string) []store.TopicConf {
	list := make([]store.TopicConf, 0, len(names))
	for _, name := range names {
		t := s.Topics.Get(name)
		if t == nil {
			list = append(list, store.TopicConf{Name: name, Gone: true})
			continue
		}
		if t.Locked { // its limits are set by hosts that can decrypt it
			continue
		}
		list = append(list, topicConf(t))
	}
	return list
}

// allTopicConfs yields those of the current snapshot.
func (p *parts) allTopicConfs(yield func(store.TopicConf) bool) {
	for _, t := range p.registry.Snapshot().Topics.All() {
		if !t.Locked && !yield(topicConf(t)) { // limits of locked topics are set by hosts that can decrypt them
			return
		}
	}
}

func topicConf(t *registry.Topic) store.TopicConf {
	c := store.TopicConf{
		Name: t.Name, Paused: t.State != registry.TopicActive, TTR: t.TTR.Std(), MaxAttempts: t.MaxAttempts,
		MaxInFlight: t.MaxInFlight, RateLimit: t.RateLimit, Pull: t.Delivery == registry.DeliveryPull,
		Drop: t.OnExpiry == registry.ExpiryDrop, Remember: time.Duration(t.Remember),
	}
	if t.PerKey != nil {
		c.Key = store.KeyConf(*t.PerKey)
	}
	return c
}

// lastRefused returns the last refused pushes of all processes.
func (p *parts) lastRefused(ctx context.Context) (refusals.Streak, error) {
	return refusals.Latest(ctx, p.registry.DB())
}

// relays returns the reports about outbox tables.
func (p *parts) relays() relays.Store { return relays.Store{DB: p.registry.DB()} }

// figures returns the queue with what people read about it.
func (p *parts) figures() observe.Figures { return observe.Figures{Queue: p.queue} }
