package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway/importer"
	"github.com/wakecall/wakecall/internal/app"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry/database"
)

const aboutImport = `Imports topics and waiting jobs of another system while its producers and consumers
still run: each job is in one of the two systems. An import that was interrupted is started again
in the same way, on the same host. Run it on a host of Wakecall, with its configuration.`

func (p *program) importCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "import", GroupID: groupCare, Short: "import topics and waiting jobs of another system", Long: aboutImport,
	}, p.importPHPDQ(), p.importLmstfy(), p.importDelayQueue(), p.importGrape(), p.importBeanstalk())
}

// importFrom prepares a command that imports. open opens the old system and returns a function that closes it.
func (p *program) importFrom(
	cmd *cobra.Command, open func(cmd *cobra.Command, cfg *conf.Config) (importer.Old, func(), error),
) *cobra.Command {
	dry := cmd.Flags().Bool("dry-run", false, "count topics and jobs, and import nothing")
	follow := cmd.Flags().Bool("follow", false, "go on until interrupted, for producers that still use the old system")
	return p.addOutputFlag(p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		old, closeOld, err := open(cmd, cfg)
		if err != nil {
			return err
		}
		defer closeOld()
		began, screen := p.now(), &barScreen{out: p.err}
		shown := began
		o := importer.Options{Old: old, DryRun: *dry, Follow: *follow, Progress: func(r importer.Report) {
			if now := p.now(); now.Sub(shown).Milliseconds() >= 500 {
				shown = now
				screen.show(importBar(&r, now.Sub(began).Seconds()))
			}
		}}
		report, err := app.Import(ctx, cfg, version, log.New(cfg, screen, "import"), o)
		screen.end()
		switch {
		case err != nil && *dry:
			return err
		case err != nil:
			return fmt.Errorf("%w; %d jobs were imported, start it again to go on", err, report.Imported)
		}
		return p.show(report, func(w io.Writer) error { return importTable(w, &report, *dry) })
	}))
}

// barScreen shows a progress bar below the lines of a log.
type barScreen struct {
	mu    sync.Mutex
	out   io.Writer
	shown bool
}

// show replaces the bar, or shows one below the last line of the log.
func (s *barScreen) show(bar string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = true
	fmt.Fprintf(s.out, "\r%s", bar)
}

// Write writes a line of the log.
func (s *barScreen) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
	return s.out.Write(line)
}

// end ends the line of the bar.
func (s *barScreen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave()
}

func (s *barScreen) leave() {
	if s.shown {
		s.shown = false
		fmt.Fprintln(s.out)
	}
}

func importBar(r *importer.Report, seconds float64) string {
	const width = 30
	done := r.Imported + r.Kept + r.Refused
	share := min(1, float64(done)/float64(max(1, r.Waiting)))
	bar := strings.Repeat("=", int(share*width)) + strings.Repeat(" ", width-int(share*width))
	return fmt.Sprintf("[%s] %3.0f %%  %d of %s, %.0f a second ",
		bar, 100*share, done, printable.Count(max(done, r.Waiting), "job"), float64(done)/max(seconds, 0.001))
}

func importTable(w io.Writer, r *importer.Report, dry bool) error {
	pairs := []string{"topics", strconv.Itoa(r.Topics), "  not registered yet", strconv.Itoa(r.Made)}
	if r.Tokens > 0 {
		pairs = append(pairs, "tokens", strconv.Itoa(r.Tokens))
	}
	if r.Tubes > 0 {
		pairs = append(pairs, "tubes", strconv.Itoa(r.Tubes))
	}
	pairs = append(pairs, "jobs waiting", strconv.Itoa(r.Waiting))
	if !dry {
		pairs = append(pairs, "imported", strconv.Itoa(r.Imported), "  of an interrupted import", strconv.Itoa(r.Resumed),
			"exist, pushed later", strconv.Itoa(r.Kept), "refused", strconv.Itoa(r.Refused),
			"left in the old system", strconv.Itoa(r.Left))
	}
	return fields(w, pairs...)
}

func (p *program) importPHPDQ() *cobra.Command {
	cmd := &cobra.Command{Use: "phpdq", Short: "import from a php-delayqueue"}
	mysql := cmd.Flags().String("mysql", "", "`DSN` of its database: mysql://user:pw@tcp(host:3306)/dq")
	shards := cmd.Flags().StringArray("redis", nil,
		"`HOST:PORT[:PASSWORD]` of its Redis; repeat it for each (default: those of the table dq_redis)")
	return p.importFrom(cmd, func(cmd *cobra.Command, cfg *conf.Config) (importer.Old, func(), error) {
		switch {
		case *mysql == "":
			return nil, nil, usagef("%s: --mysql is missing", cmd.CommandPath())
		case !strings.HasPrefix(*mysql, "mysql://"):
			return nil, nil, usagef("--mysql %q is not mysql://user:password@tcp(host:3306)/dq", database.MaskDSN(*mysql))
		}
		return importer.OpenPHPDQ(cmd.Context(), *mysql, *shards, app.PHPDQZone(cfg))
	})
}

// importFromRedis does what importFrom does, for a system whose jobs are in one Redis.
func (p *program) importFromRedis(
	cmd *cobra.Command, example string, open func(cfg *conf.Config, from *redis.Options) (importer.Old, func(), error),
) *cobra.Command {
	from := cmd.Flags().String("redis", "", "`URL` of its Redis: "+example)
	return p.importFrom(cmd, func(cmd *cobra.Command, cfg *conf.Config) (importer.Old, func(), error) {
		if *from == "" {
			return nil, nil, usagef("%s: --redis is missing", cmd.CommandPath())
		}
		o, err := oldRedis("--redis", *from)
		if err != nil {
			return nil, nil, err
		}
		return open(cfg, o)
	})
}

// oldRedis parses the URL of an old Redis. It hides the parser's error, which may contain the password.
func oldRedis(flag, from string) (*redis.Options, error) {
	o, err := redis.ParseURL(from)
	if err != nil {
		return nil, usagef("%s %q is not the URL of a Redis: write redis://:password@host:6379/0",
			flag, database.MaskDSN(from))
	}
	return o, nil
}

func (p *program) importLmstfy() *cobra.Command {
	cmd := &cobra.Command{Use: "lmstfy", Short: "import from a lmstfy: tokens, limits and waiting jobs of a pool"}
	pool := cmd.Flags().String("pool", "",
		"`NAME` of the pool whose Redis it is (default: the first of gateways.lmstfy.pools)")
	admin := cmd.Flags().String("admin-redis", "",
		"`URL` of lmstfy's AdminRedis, which has the tokens and limits of all pools (default: that of --redis)")
	return p.importFromRedis(cmd, "redis://:pw@host:6379/0",
		func(cfg *conf.Config, from *redis.Options) (importer.Old, func(), error) {
			tokens := from
			if *admin != "" {
				var err error
				if tokens, err = oldRedis("--admin-redis", *admin); err != nil {
					return nil, nil, err
				}
			}
			return app.OpenLmstfy(cfg, from, tokens, *pool)
		})
}

func (p *program) importDelayQueue() *cobra.Command {
	cmd := &cobra.Command{Use: "delayqueue", Short: "import the waiting jobs of a delay-queue (ouqiang's)"}
	return p.importFromRedis(cmd, "redis://:pw@host:6379/1",
		func(_ *conf.Config, from *redis.Options) (importer.Old, func(), error) {
			old, closeRedis := app.OpenDelayQueue(from)
			return old, closeRedis, nil
		})
}

func (p *program) importGrape() *cobra.Command {
	cmd := &cobra.Command{Use: "grape", Short: "import the tubes and waiting jobs of a Grape"}
	group := cmd.Flags().String("namespace", "", "`NAME` that its keys begin with")
	base64 := cmd.Flags().Bool("base64", false, "bodies are stored in base64, as by earlier versions of Grape")
	return p.importFromRedis(cmd, "redis://:pw@host:6379/0",
		func(_ *conf.Config, from *redis.Options) (importer.Old, func(), error) {
			old, closeRedis := app.OpenGrape(from, *group, *base64)
			return old, closeRedis, nil
		})
}

func (p *program) importBeanstalk() *cobra.Command {
	cmd := &cobra.Command{Use: "beanstalk", Short: "import the waiting jobs of a beanstalkd"}
	from := cmd.Flags().String("addr", "", "`HOST:PORT` of it")
	return p.importFrom(cmd, func(cmd *cobra.Command, _ *conf.Config) (importer.Old, func(), error) {
		if *from == "" {
			return nil, nil, usagef("%s: --addr is missing", cmd.CommandPath())
		}
		old, closeConn, err := app.OpenBeanstalkd(cmd.Context(), *from)
		if err != nil {
			return nil, nil, fmt.Errorf("--addr %q: %w", *from, err)
		}
		return old, closeConn, nil
	})
}
