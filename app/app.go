package app

import (
	"context"
	"errors"
	"fmt"
	"io"
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

// parts are what every role works with: the registry's snapshot, the queue that follows it, the journal and the process's metrics.
type parts struct {
	cfg      *conf.Config
	version  string
	log      *slog.Logger
	metrics  *prometheus.Registry
	journal  *journal.Journal
	registry *registry.Registry
	queue    *queue.Queue
	shards   []queue.ShardConfig // as the queue has them
	changed  chan struct{}       // ticks after the queue got other shards
	again    chan struct{}       // the same, for the keeper of a redis-checker
	moving   chan struct{}       // the same, for what moves the jobs of draining shards
}

// holdOf is how long a dispatcher waits for the hosts' journals to be compared with a server that has come new to a shard.
func holdOf(process string) time.Duration {
	if !strings.HasPrefix(process, RoleDispatcher) {
		return 0
	}
	return 30 * time.Second
}

// openParts opens everything for a process, whose name stands in its log and in the journal. The registry's database may be
// away when a snapshot of it is on disk.
func openParts(ctx context.Context, cfg *conf.Config, process, version string, log *slog.Logger) (*parts, error) {
	tuneGC(process)
	p := &parts{cfg: cfg, version: version, log: log, metrics: newMetrics(), changed: make(chan struct{}, 1), again: make(chan struct{}, 1),
		moving: make(chan struct{}, 1)}
	if err := p.open(process); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.apply(ctx)
	return p, nil
}

// tuneGC collects garbage less often than Go would: a process has a few megabytes alive and allocates much, and collecting costs a tenth
// of its processor time. Only a redis-checker holds much, while it compares a journal with a shard. GOGC and GOMEMLIMIT take precedence.
func tuneGC(process string) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" && process == RoleChecker {
		debug.SetMemoryLimit(208 << 20)
	}
}

func (p *parts) open(process string) (err error) {
	p.journal, err = journal.Open(journal.Options{Dir: p.cfg.JournalDir(), Keep: p.cfg.Journal.Keep, Process: process, Sync: p.cfg.JournalSync(), Logger: p.log})
	if err != nil {
		return err
	}
	p.log = logging.Journaled(p.log, p.journal)
	recorder := record.Recorder{Journal: p.journal}
	p.queue = queue.Open(queue.Options{
		Timeout: p.cfg.Redis.Timeout, PoolSize: p.cfg.Redis.PoolSize, Buckets: p.cfg.Redis.Buckets, Logger: p.log,
		Accepted: recorder.Accepted, Changed: recorder.Changed,
		Durability: p.durability, Hold: holdOf(process),
	})
	p.registry, err = setup.OpenRegistry(p.cfg, p.log, p.queue.Announce)
	return err
}

func newMetrics() *prometheus.Registry {
	m := prometheus.NewRegistry()
	m.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// run runs a role until it ends. What it works with goes on until then, so that stopping in an orderly way has all it needs.
func (p *parts) run(ctx context.Context, role func(context.Context) error) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	list := []service{
		{"registry", p.registry.Run}, {"journal housekeeping", p.journal.RunHousekeeping}, {"shards and topics", p.follow},
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := newServices(p.log).run(background, list...); err != nil {
			p.log.Error("a background service did not stop in an orderly way", "error", err)
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
	closeOne := func(what string, c io.Closer) {
		if err := c.Close(); err != nil {
			errs = append(errs, fmt.Errorf("closing the %s: %w", what, err))
		}
	}
	if p.registry != nil {
		closeOne("registry", p.registry)
	}
	if p.queue != nil {
		closeOne("queue", p.queue)
	}
	if p.journal != nil {
		closeOne("journal", p.journal)
	}
	return errors.Join(errs...)
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

// applyLimit bounds how long a shard that hangs holds up the next change.
const applyLimit = 5 * time.Second

func (p *parts) apply(ctx context.Context) {
	snapshot := p.registry.Snapshot()
	if shards := setup.ShardConfigs(p.cfg, snapshot.Shards); !slices.Equal(shards, p.shards) {
		if err := p.queue.SetShards(ctx, shards); err != nil {
			p.log.Error("a shard of the registry cannot be used", "error", err)
		}
		p.shards = shards
		for _, tick := range []chan struct{}{p.changed, p.again, p.moving} {
			select {
			case tick <- struct{}{}:
			default:
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, applyLimit)
	defer cancel()
	if err := p.queue.SetTopics(ctx, topicConfs(snapshot)); err != nil && !errors.Is(err, context.Canceled) {
		p.log.Warn("the limits of topics are not in every shard yet; they follow when it answers", "error", err)
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
