package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/beanstalk"
	"github.com/wakecall/wakecall/gateway/delayqueue"
	"github.com/wakecall/wakecall/gateway/grape"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/gateway/lmstfy"
	"github.com/wakecall/wakecall/internal/app/setup"
)

// Import imports topics and jobs of another system. o must contain Old, and the options of the command line.
func Import(
	ctx context.Context, cfg *conf.Config, version string, log *slog.Logger, o importer.Options,
) (report importer.Report, err error) {
	p, err := openParts(ctx, cfg, "import", version, log)
	if err != nil {
		return report, setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	o.Registry, o.Jobs, o.Journal, o.Logger = p.editedRegistry(), p.queue, cfg.JournalDir(), p.log
	if g, ok := o.Old.(*importer.Grape); ok {
		g.Create = func(ctx context.Context, tubes ...string) error { return grape.CreateTubes(ctx, p.registry, tubes...) }
	}
	o.Prepare = func(ctx context.Context, r *importer.Report) error { return p.prepareImport(ctx, &o, r) }
	return importer.Run(ctx, o)
}

// prepareImport imports what an old system has besides topics and jobs, or only counts it.
func (p *parts) prepareImport(ctx context.Context, o *importer.Options, r *importer.Report) (err error) {
	switch old := o.Old.(type) {
	case *importer.Lmstfy:
		tokens, err := p.tokensOf(ctx, old)
		if r.Tokens = len(tokens); err != nil || o.DryRun {
			return err
		}
		return p.importTokens(ctx, old.Pool, tokens)
	case *importer.Grape:
		tubes, err := old.Tubes(ctx)
		r.Tubes = len(tubes)
		return err
	case *importer.Beanstalkd:
		if o.DryRun {
			return nil
		}
		process, last, err := old.LastID()
		if err != nil {
			return err
		}
		old.Offset, err = beanstalk.Offset(ctx, p.registry, process, last)
		return err
	}
	return nil
}

// OpenDelayQueue opens the Redis of a delay-queue; closeRedis closes it.
func OpenDelayQueue(from *redis.Options) (old *importer.DelayQueue, closeRedis func()) {
	db := importer.Connect(from)
	return &importer.DelayQueue{
		Redis: db, Namespace: namespace(delayqueue.Namespace, "delay-queue", nil), TopicOf: delayqueue.TopicOf,
	}, func() { _ = db.Close() }
}

// OpenGrape opens the Redis of a Grape; closeRedis closes it.
func OpenGrape(from *redis.Options, group string, base64 bool) (old *importer.Grape, closeRedis func()) {
	db := importer.Connect(from)
	return &importer.Grape{
		Redis: db, Group: group, Base64: base64, Namespace: namespace(grape.Namespace, "Grape", nil), TopicOf: grape.TopicOf,
	}, func() { _ = db.Close() }
}

// OpenBeanstalkd connects to a beanstalkd; closeConn closes the connection.
func OpenBeanstalkd(ctx context.Context, addr string) (old *importer.Beanstalkd, closeConn func(), err error) {
	old = &importer.Beanstalkd{
		Addr: addr, Namespace: namespace(beanstalk.Namespace, "beanstalkd", nil), TopicOf: beanstalk.TopicOf,
		PriorityOf: beanstalk.LevelOf,
	}
	if err := old.Open(ctx); err != nil {
		return nil, nil, err
	}
	return old, old.Close, nil
}

// OpenLmstfy opens a pool of a lmstfy: its Redis, and admin, the Redis with the tokens. closeRedis closes them.
func OpenLmstfy(cfg *conf.Config, from, admin *redis.Options, pool string) (
	old *importer.Lmstfy, closeRedis func(), err error,
) {
	pools := strings.Split(cfg.Setting("gateways.lmstfy.pools"), ",")
	if pool = cmp.Or(pool, pools[0]); !slices.Contains(pools, pool) {
		return nil, nil, fmt.Errorf("gateways.lmstfy.pools has no pool %q: add it there first", pool)
	}
	g := lmstfy.New(&gateway.Endpoint{}, lmstfy.Options{Pools: pools})
	old = &importer.Lmstfy{
		Redis: importer.Connect(from), Admin: redis.NewClient(admin), Pool: pool,
		Namespace: lmstfyNamespace(g.NamespaceOf(pool)),
		TopicOf:   func(namespace, queue string) string { return g.TopicOf(pool, namespace, queue) },
	}
	return old, func() { _, _ = old.Redis.Close(), old.Admin.Close() }, nil
}

// tokensOf returns the tokens of a lmstfy. It warns if there are none.
func (p *parts) tokensOf(ctx context.Context, old *importer.Lmstfy) ([]importer.LmstfyToken, error) {
	list, err := old.Tokens(ctx)
	if err == nil && len(list) == 0 {
		p.log.Warn("there are no tokens of this pool: name lmstfy's AdminRedis with --admin-redis if it is another Redis",
			"pool", old.Pool)
	}
	return list, err
}

// importTokens imports tokens of a pool of a lmstfy and their limits. Existing ones stay as they are.
func (p *parts) importTokens(ctx context.Context, pool string, list []importer.LmstfyToken) error {
	tokens := lmstfy.NewTokens(p.registry)
	for _, t := range list {
		err := tokens.Add(ctx, pool, t.Namespace, t.Token, t.Description)
		if err != nil && !errors.Is(err, lmstfy.ErrTokenExists) {
			return fmt.Errorf("import a token of the namespace %s: %w", t.Namespace, err)
		}
		if t.Interval <= 0 {
			continue
		}
		limit := &lmstfy.Limit{Read: t.Read, Write: t.Write, Interval: t.Interval}
		err = tokens.SetLimit(ctx, pool, t.Namespace, t.Token, limit, false)
		if err != nil && !errors.Is(err, lmstfy.ErrLimitExists) {
			return fmt.Errorf("import a limit of the namespace %s: %w", t.Namespace, err)
		}
	}
	return nil
}
