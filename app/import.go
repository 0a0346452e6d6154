package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/gateway/lmstfy"
	"github.com/wakecall/wakecall/importer"
	"github.com/wakecall/wakecall/setup"
)

// Import imports topics and jobs of another system. o needs Old, and what the command line says.
func Import(
	ctx context.Context, cfg *conf.Config, version string, log *slog.Logger, o importer.Options,
) (report importer.Report, err error) {
	p, err := openParts(ctx, cfg, "import", version, log)
	if err != nil {
		return report, setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	o.Registry, o.Jobs, o.Journal, o.Logger = p.editedRegistry(), p.queue, cfg.JournalDir(), p.log
	if l, ok := o.Old.(*importer.Lmstfy); ok && !o.DryRun {
		if err := p.importTokens(ctx, l); err != nil {
			return report, err
		}
	}
	return importer.Run(ctx, o)
}

// OpenLmstfy is the Redis of a lmstfy; close closes it.
func OpenLmstfy(from string) (old *importer.Lmstfy, closeRedis func(), err error) {
	o, err := redis.ParseURL(from)
	if err != nil {
		return nil, nil, fmt.Errorf("the Redis of lmstfy: %w", err)
	}
	o.MaxRetries = -1 // a claim whose answer is lost is found among the claims that are left
	db := redis.NewClient(o)
	g := lmstfy.New(&gateway.Endpoint{}, lmstfy.Options{Pools: []string{lmstfyPool}})
	old = &importer.Lmstfy{
		Redis: db, Namespace: lmstfyNamespace(g.NamespaceOf(lmstfyPool)),
		TopicOf: func(namespace, queue string) string { return g.TopicOf(lmstfyPool, namespace, queue) },
	}
	return old, func() { _ = db.Close() }, nil
}

// importTokens brings the tokens of a lmstfy and their limits. Those that exist stay as they are.
func (p *parts) importTokens(ctx context.Context, old *importer.Lmstfy) error {
	list, err := old.Tokens(ctx)
	if err != nil {
		return err
	}
	tokens := lmstfy.NewTokens(p.registry)
	for _, t := range list {
		err := tokens.Add(ctx, lmstfyPool, t.Namespace, t.Token, t.Description)
		if err != nil && !errors.Is(err, lmstfy.ErrTokenExists) {
			return fmt.Errorf("import a token of the namespace %s: %w", t.Namespace, err)
		}
		if t.Interval <= 0 {
			continue
		}
		limit := &lmstfy.Limit{Read: t.Read, Write: t.Write, Interval: t.Interval}
		if err := tokens.SetLimit(ctx, lmstfyPool, t.Namespace, t.Token, limit, true); err != nil {
			return fmt.Errorf("import a limit of the namespace %s: %w", t.Namespace, err)
		}
	}
	return nil
}
