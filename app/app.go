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

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/logging"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/record"
	"github.com/wakecall/wakecall/registry"
	"github.com/wakecall/wakecall/setup"
)

// parts are what every role works with.
type parts struct {
	cfg      *conf.Config
	version  string
	log      *slog.Logger
	metrics  *prometheus.Registry
	journal  *journal.Journal
	registry *registry.Registry
	queue    *queue.Queue        // it follows the registry's snapshot
	shards   []queue.ShardConfig // as the queue has them
	ticks    []chan struct{}     // see shardsChanged
}

// openParts opens everything for a process, whose name is in its log and in the journal. The registry's database may
// be away if there is a snapshot of it on the disk.
func openParts(ctx context.Context, cfg *conf.Config, process, version string, log *slog.Logger) (*parts, error) {
	tuneGC(process)
	p := &parts{cfg: cfg, version: version, log: log, metrics: newMetrics()}
	if err := p.open(process); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.apply(ctx)
	return p, nil
}

// tuneGC collects garbage less often than Go would: a process has a few megabytes alive and allocates much, and
// collecting took a tenth of its processor time. Only a redis-checker holds much, while it compares a journal with a
// shard. GOGC and GOMEMLIMIT take precedence.
func tuneGC(process string) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" && process == RoleChecker {
		debug.SetMemoryLimit(208 << 20)
	}
}

// dispatcherHold is how long a dispatcher takes no jobs from a Redis that restarted, while the hosts compare their
// journals with it.
const dispatcherHold = 30 * time.Second

func (p *parts) open(process string) (err error) {
	p.journal, err = journal.Open(journal.Options{
		Dir: p.cfg.JournalDir(), Keep: p.cfg.Journal.Keep, Process: process, Sync: p.cfg.JournalSync(), Logger: p.log,
	})
	if err != nil {
		return err
	}
	p.log = logging.Journaled(p.log, p.journal)
	recorder := record.Recorder{Journal: p.journal}
	o := queue.Options{
		Timeout: p.cfg.Redis.Timeout, PoolSize: p.cfg.Redis.PoolSize, Buckets: p.cfg.Redis.Buckets, Logger: p.log,
		Accepted: recorder.Accepted, Changed: recorder.Changed, Durability: p.durability,
	}
	if strings.HasPrefix(process, RoleDispatcher) {
		o.Hold = dispatcherHold
	}
	p.queue = queue.Open(o)
	p.registry, err = setup.OpenRegistry(p.cfg, p.log, p.queue.Announce)
	return err
}

func newMetrics() *prometheus.Registry {
	m := prometheus.NewRegistry()
	m.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// run runs a role until it ends. What it works with runs until then, so that a graceful stop has all it needs.
func (p *parts) run(ctx context.Context, role func(context.Context) error) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	list := []service{
		{"registry", p.registry.Run}, {"journal housekeeping", p.journal.RunHousekeeping}, {"shards and topics", p.follow},
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := newServices(p.log).run(background, list...); err != nil {
			p.log.Error("a background service failed to stop", "error", err)
		}
	})
	err := role(ctx)
	stop()
	wg.Wait()
	return err
}

// close closes what was opened, last first.
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

// shardsChanged is a channel that ticks after the queue got other shards. It is asked for before run.
func (p *parts) shardsChanged() <-chan struct{} {
	tick := make(chan struct{}, 1)
	p.ticks = append(p.ticks, tick)
	return tick
}

// follow gives the queue the shards and topics of every new snapshot.
func (p *parts) follow(ctx context.Context) error {
	changed, end := p.registry.Subscribe()
	defer end()
	p.apply(ctx) // what changed before the subscription
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			p.apply(ctx)
		}
	}
}

// applyLimit is how long a shard that does not answer delays the next change.
const applyLimit = 5 * time.Second

func (p *parts) apply(ctx context.Context) {
	snapshot := p.registry.Snapshot()
	if shards := setup.ShardConfigs(p.cfg, snapshot.Shards); !slices.Equal(shards, p.shards) {
		if err := p.queue.SetShards(ctx, shards); err != nil {
			p.log.Error("a shard of the registry cannot be used", "error", err)
		}
		p.shards = shards
		for _, tick := range p.ticks {
			select {
			case tick <- struct{}{}:
			default:
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, applyLimit)
	defer cancel()
	if err := p.queue.SetTopics(ctx, topicConfs(snapshot)); err != nil && !errors.Is(err, context.Canceled) {
		p.log.Warn("store the limits of topics in every shard; the rest follows when it answers", "error", err)
	}
}

func topicConfs(s *registry.Snapshot) []queue.TopicConf {
	list := make([]queue.TopicConf, 0, len(s.Topics))
	for _, t := range s.Topics {
		list = append(list, queue.TopicConf{
			Name: t.Name, Paused: t.State != registry.TopicActive, TTR: t.TTR.Std(), MaxAttempts: t.MaxAttempts,
			MaxInFlight: t.MaxInFlight, RateLimit: t.RateLimit,
		})
	}
	return list
}
