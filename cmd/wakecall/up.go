package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/registry"
)

const aboutUp = `Starts the master, which starts and supervises everything: the API, timers, dispatchers, the redis-checker, and, when no Redis is
configured, a redis-server of its own.

  TERM, INT, USR2   stop gracefully within shutdown_timeout; a second TERM or INT stops at once
  HUP               read the configuration again and replace the processes one by one, refusing no connection`

func (a *app) upCommand() *cobra.Command {
	withDemo := false
	cmd := &cobra.Command{Use: "up", GroupID: groupRun, Short: "start the master and everything it supervises", Long: aboutUp, Args: noArgs}
	cmd.Flags().BoolVar(&withDemo, "demo", false, "also make a topic \"demo\" and an endpoint that prints its callbacks here")
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.load(s)
		if err != nil {
			return err
		}
		return a.up(cmd.Context(), cfg, s, withDemo)
	}
	return cmd
}

// up prepares what the first start needs and runs the master until ctx is done.
func (a *app) up(ctx context.Context, cfg *conf.Config, s settings, withDemo bool) error {
	log := newLogger(cfg, a.err, "master")
	passed, err := master.Passed()
	if err != nil {
		return &usageError{err}
	}
	shards, err := firstSteps(ctx, cfg, log)
	if err != nil {
		return err
	}
	opts, err := masterOptions(cfg, shards)
	if err != nil {
		return err
	}
	opts.Logger, opts.Kill, opts.Passed = log, a.signals.kill, passed
	opts.Reload = func() (master.Options, error) {
		next, err := a.load(s)
		if err != nil {
			return master.Options{}, err
		}
		return masterOptions(next, shards)
	}
	opts.Ready = func() {
		log.Info("up", "api", apiURL(cfg), "admin", adminURL(cfg), "metrics", "http://"+reachable(cfg.Metrics.Addr)+"/metrics", "version", version)
	}
	a.signals.supervise()
	run := both(func(ctx context.Context) error { return master.Run(ctx, a.signals.hup, opts) }, returnMemory)
	if !withDemo {
		return run(ctx)
	}
	endDemo, err := a.demo(ctx, cfg, log)
	if err != nil {
		return err
	}
	return errors.Join(run(ctx), endDemo())
}

// firstSteps makes data_dir, the registry's schema and what a first start needs, and returns the registered shards. What would make the
// start fail is looked at before anything is registered: the registry must not remember a mistake in redis.nodes.
func firstSteps(ctx context.Context, cfg *conf.Config, log *slog.Logger) ([]registry.Shard, error) {
	if err := makeDataDir(cfg); err != nil {
		return nil, err
	}
	r, err := openRegistry(cfg, log, nil)
	if err != nil {
		return nil, adviseOnRegistry(cfg, err)
	}
	defer r.Close()
	if err := othersRedis(cfg, r.Snapshot().Shards); err != nil {
		return nil, err
	}
	planned := plannedShards(cfg, r.Snapshot())
	if isManaged(planned) {
		if f := checkRedisBinary(ctx, "redis-server", cfg.Redis.Binary); f.Verdict == bad {
			return nil, fmt.Errorf("%s. %s", f.Detail, f.Advice)
		}
	}
	if err := checkPasswords(ctx, cfg, planned); err != nil {
		return nil, err
	}
	if err := prepare(ctx, cfg, r, log); err != nil {
		return nil, err
	}
	return r.Snapshot().Shards, nil
}

// othersRedis refuses to run a redis-server of this host's own beside that of another one: the two would share a registry, and the jobs
// pushed to one would be unknown to the other.
func othersRedis(cfg *conf.Config, registered []registry.Shard) error {
	if strings.HasPrefix(cfg.RegistryDSN().Reveal(), "sqlite:") || !isManaged(registered) {
		return nil
	}
	_, err := os.Stat(cfg.RedisDir())
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return fmt.Errorf("the registry has the shard %q, a redis-server that the master of one host runs for itself, and %s of this host has none of its data. "+
		"Several hosts need a Redis that all of them reach: register it with `wakecall shard put redis-1 --url redis://…` and take %[1]q away. "+
		"If this host takes the other's place, copy its %[2]s here; to begin with an empty one, make the directory", "managed", cfg.RedisDir())
}

// isManaged says whether a shard is the redis-server that the master runs itself.
func isManaged(shards []registry.Shard) bool {
	return slices.ContainsFunc(shards, func(s registry.Shard) bool {
		return s.URL == registry.ManagedShard && s.State != registry.ShardOffline
	})
}

func masterOptions(cfg *conf.Config, shards []registry.Shard) (master.Options, error) {
	config, err := cfg.MarshalPrivate()
	if err != nil {
		return master.Options{}, err
	}
	return master.Options{
		Version: version, DataDir: cfg.DataPath(), ShutdownTimeout: cfg.ShutdownTimeout, MetricsAddr: cfg.Metrics.Addr,
		Roles: []master.RoleSpec{
			{Name: roleServer, Count: 1, Config: config, Listeners: []master.ListenSpec{{Name: apiSocket, Key: "server.addr", Addr: cfg.Server.Addr}}},
			{Name: roleTimer, Count: cfg.Timers, Numbered: true, Config: config},
			{Name: roleDispatcher, Count: cfg.Dispatchers, Numbered: true, Config: config},
			{Name: roleChecker, Count: 1, Config: config},
			{Name: roleAdmin, Count: 1, Config: config, Listeners: []master.ListenSpec{{Name: adminSocket, Key: "admin.addr", Addr: cfg.Admin.Addr}}},
		},
		Redis: master.RedisOptions{
			Managed: isManaged(shards), Binary: cfg.Redis.Binary, Dir: cfg.RedisDir(), Socket: cfg.RedisSocket(), MaxMemory: int64(cfg.Redis.MaxMemory),
		},
	}, nil
}

// demo starts the demo's endpoint and, when everything is up, introduces it. end stops both.
func (a *app) demo(ctx context.Context, cfg *conf.Config, log *slog.Logger) (end func() error, err error) {
	d, err := startDemo(a.out)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.introduce(ctx, cfg, a.out); err != nil && ctx.Err() == nil {
			log.Error("the demo cannot be shown", "error", err)
		}
	})
	return func() error {
		cancel()
		wg.Wait()
		return d.Close()
	}, nil
}
