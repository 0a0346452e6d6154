package checker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/health"
	"github.com/wakecall/wakecall/pershard"
	"github.com/wakecall/wakecall/queue"
)

// Shard is the part of a queue.Shard that the checker needs.
type Shard interface {
	Name() string
	Ping(ctx context.Context) (clock time.Time, took time.Duration, err error)
	Health(ctx context.Context) queue.ShardHealth
}

// Options of a Checker.
type Options struct {
	Shards     func() []Shard
	Changed    <-chan struct{} // ticks when Shards may have changed; nil: they never do
	Every      time.Duration   // between pings of a shard; 0: a second
	Topics     func() []string // whose jobs are counted at a scrape
	Stats      func(ctx context.Context, topics []string) (map[string]queue.Stats, error)
	Compared   bool          // somebody calls Restarted; without, the checker itself tells that another server answers
	Notify     func(Finding) // called at the beginning and the end of each finding; may be nil
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Checker is the redis-checker role.
type Checker struct {
	opts Options

	mu       sync.Mutex
	findings map[key]Finding
	shards   map[string]view
	restarts map[string]time.Time // until when a finding of Restarted holds
}

// view is what was last seen of a shard.
type view struct {
	up     bool
	ping   time.Duration
	p50    time.Duration // of the last minute's pings
	p99    time.Duration
	health queue.ShardHealth // zero until it told about itself
}

type key struct {
	shard string
	kind  health.Kind
}

// New makes a checker; Run starts it.
func New(o Options) *Checker {
	if o.Every <= 0 {
		o.Every = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Checker{opts: o, findings: map[key]Finding{}, shards: map[string]view{}, restarts: map[string]time.Time{}}
	if o.Registerer != nil {
		o.Registerer.MustRegister(&collector{c})
	}
	return c
}

// Run watches until ctx is done and everything it started has ended.
func (c *Checker) Run(ctx context.Context) error {
	pershard.Run(ctx, c.opts.Shards, c.opts.Changed, c.watch)
	return nil
}

// infoEvery is in pings: INFO is dearer than a ping.
const infoEvery = 10

func (c *Checker) watch(ctx context.Context, s Shard) {
	w := watched{limit: c.opts.Every, compared: c.opts.Compared}
	defer func() {
		if errors.Is(context.Cause(ctx), pershard.ErrRemoved) { // else the finding lasts, and only this process ends
			c.forget(s.Name())
		}
	}()
	for n := 0; ; n++ {
		next := time.After(c.opts.Every) // from before a ping that is not answered
		failed := w.failures
		c.apply(s.Name(), w.ping(ctx, s))
		c.see(s.Name(), func(v *view) {
			v.up, v.ping, v.p50, v.p99 = w.failures < health.DownAfter, w.last, w.quantile(50), w.quantile(99)
		})
		if back := failed > 0; w.failures == 0 && (back || n%infoEvery == 0) {
			h := c.health(ctx, s)
			if ctx.Err() != nil {
				return
			}
			c.apply(s.Name(), w.judge(h))
			if h.Up {
				c.see(s.Name(), func(v *view) { v.health = h })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
	}
}

// health asks a shard about itself.
func (c *Checker) health(ctx context.Context, s Shard) queue.ShardHealth {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Every)
	defer cancel()
	return s.Health(ctx)
}

// apply begins and ends findings: a kind that is named with a detail holds, one with none does not.
func (c *Checker) apply(shard string, judged verdicts) {
	for kind, detail := range judged {
		c.mu.Lock()
		k := key{shard, kind}
		f, held := c.findings[k]
		if kind == health.Restarted && time.Now().Before(c.restarts[shard]) {
			c.mu.Unlock()
			continue
		}
		changed := held != (detail != "")
		switch {
		case !changed:
		case held:
			delete(c.findings, k)
			f.Ended = time.Now().UTC()
		default:
			f = Finding{Shard: shard, Kind: kind, Detail: detail, Since: time.Now().UTC()}
			c.findings[k] = f
		}
		c.mu.Unlock()
		if changed {
			c.tell(f)
		}
	}
}

// restartFor is how long it can be read that another server answers: it is no state of the shard.
const restartFor = time.Minute

// Restarted makes a finding of what came of it that another server answers for a shard.
func (c *Checker) Restarted(shard, detail string) {
	c.mu.Lock()
	delete(c.restarts, shard)
	c.mu.Unlock()
	c.apply(shard, verdicts{health.Restarted: ""})
	c.apply(shard, verdicts{health.Restarted: detail})
	c.mu.Lock()
	c.restarts[shard] = time.Now().Add(restartFor)
	c.mu.Unlock()
}

func (c *Checker) tell(f Finding) {
	if f.Ended.IsZero() {
		c.opts.Logger.Error("finding begins", "shard", f.Shard, "finding", f.Kind, "detail", f.Detail)
	} else {
		c.opts.Logger.Info("finding ends", "shard", f.Shard, "finding", f.Kind, "lasted", f.Ended.Sub(f.Since).Round(time.Millisecond).String())
	}
	if c.opts.Notify != nil {
		c.opts.Notify(f)
	}
}

func (c *Checker) see(shard string, change func(*view)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.shards[shard]
	change(&v)
	c.shards[shard] = v
}

// seen is what was last seen of each shard.
func (c *Checker) seen() map[string]view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.shards)
}

// forget drops what was seen of a shard that is not watched any more, and ends its findings.
func (c *Checker) forget(shard string) {
	c.mu.Lock()
	delete(c.shards, shard)
	ended := verdicts{}
	for k := range c.findings {
		if k.shard == shard {
			ended[k.kind] = ""
		}
	}
	c.mu.Unlock()
	c.apply(shard, ended)
}

// Findings are those that hold now, by shard and kind.
func (c *Checker) Findings() []Finding {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Finding, 0, len(c.findings))
	for _, f := range c.findings {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Shard+string(a.Kind), b.Shard+string(b.Kind)) })
	return list
}
