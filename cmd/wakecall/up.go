package main

import (
	"context"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/app/demo"
	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/master"
)

const aboutUp = `Starts the master, which starts and supervises the API, the web admin, timers, dispatchers,
the redis-checker and, if no Redis is configured, a redis-server.

  TERM, INT, USR2   stop gracefully within shutdown_timeout; a second TERM or INT stops at once
  HUP               reload the configuration and replace the processes one by one, refusing no connection`

func (p *program) upCommand() *cobra.Command {
	withDemo := false
	cmd := &cobra.Command{
		Use: "up", GroupID: groupRun, Short: "start the master and everything it supervises", Long: aboutUp,
	}
	cmd.Flags().BoolVar(&withDemo, "demo", false, "also register a topic \"demo\" and print its callbacks here")
	return p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		return p.up(ctx, cfg, p.reload(cmd, cfg), withDemo)
	})
}

const aboutDemo = `Registers the topic "demo" with a Wakecall that runs on this machine, and prints its callbacks until
it is stopped. The topic stays; "wakecall topic delete demo" removes it.`

func (p *program) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", GroupID: groupRun, Short: "register a demo topic and print its callbacks", Long: aboutDemo,
	}
	return p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		p.lasts()
		return demo.Attach(ctx, cfg, p.out)
	})
}

// reload returns a function that reads the configuration again, from the same file: without it, a reload in the middle
// of a deployment would continue with the defaults.
func (p *program) reload(cmd *cobra.Command, cfg *conf.Config) func() (*conf.Config, error) {
	p.configFile = cfg.File()
	return func() (*conf.Config, error) { return p.load(cmd) }
}

// up prepares a first start and runs the master until ctx is done. load reads the configuration again.
func (p *program) up(ctx context.Context, cfg *conf.Config, load func() (*conf.Config, error), withDemo bool) error {
	p.lasts()
	out, log := log.NewOutput(p.out), log.New(cfg, p.err, "master")
	defer out.Close()
	passed, err := master.Passed()
	if err != nil {
		return &usageError{err}
	}
	shards, err := setup.Prepare(ctx, cfg, log)
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // the master does not need the topics, which may be many
	opts, err := app.MasterOptions(cfg, version, shards)
	if err != nil {
		return err
	}
	opts.Logger, opts.Kill, opts.Passed = log, p.signals.kill, passed
	opts.Reload = func() (master.Options, error) {
		next, err := load()
		if err != nil {
			return master.Options{}, err
		}
		if err := app.CheckGateways(next); err != nil {
			return master.Options{}, err
		}
		return app.MasterOptions(next, version, shards)
	}
	opts.Ready = func() {
		log.Info("up", "api", setup.APIURL(cfg), "admin", setup.AdminURL(cfg),
			"metrics", "http://"+setup.Reachable(cfg.Metrics.Addr)+"/metrics", "version", version)
	}
	p.signals.supervise()
	run := func(ctx context.Context) error { return master.Run(ctx, p.signals.hup, opts) }
	if withDemo {
		return demo.Run(ctx, cfg, out, run)
	}
	return run(ctx)
}
