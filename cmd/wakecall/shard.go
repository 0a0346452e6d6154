package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/conf/address"
	"github.com/wakecall/wakecall/internal/document"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
)

func (p *program) shardCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "shard", GroupID: groupCare,
		Short: "list, add, rename, drain and delete the Redis deployments that hold the jobs",
		Long: "The registry stores the shards. redis.nodes seeds it at the first start, and is not read afterwards.\n" +
			"list calls the API; the other commands change the registry's database directly.",
	}, p.shardListCommand(), p.shardAddCommand(), p.shardPutCommand(), p.shardRenameCommand(), p.shardDrainCommand(),
		p.shardDeleteCommand())
}

func (p *program) shardListCommand() *cobra.Command {
	return p.addClientFlags(&cobra.Command{
		Use: "list", Short: "show the shards and their health", Args: noArgs,
		RunE: p.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			shards, err := c.Shards(ctx)
			if err != nil {
				return err
			}
			return p.show(shards, func(w io.Writer) error { return shardTable(w, shards) })
		}),
	})
}

func shardTable(w io.Writer, shards []client.Shard) error {
	titles := []string{"SHARD", "STATE", "LATENCY", "MEMORY", "JOBS", "HEALTH"}
	return table(w, titles, shards, func(s client.Shard) []string {
		health, latency, memory, jobs := "up", "–", "–", "–"
		if !s.Up {
			health = "down: " + s.Error
		}
		if s.Latency != nil {
			latency = printable.Duration(time.Duration(*s.Latency * float64(time.Second)))
		}
		if s.Memory != nil {
			memory = printable.Bytes(*s.Memory)
		}
		if s.MaxMemory != nil && *s.MaxMemory > 0 {
			memory += " of " + printable.Bytes(*s.MaxMemory)
		}
		if s.Jobs != nil {
			jobs = strconv.FormatInt(*s.Jobs, 10)
		}
		if s.Moved > 0 {
			jobs += fmt.Sprintf(" (%d moved)", s.Moved)
		}
		return []string{s.Name, s.State, latency, memory, jobs, health}
	})
}

func (p *program) shardAddCommand() *cobra.Command {
	url := ""
	cmd := &cobra.Command{
		Use: "add NAME", Short: "add a shard; it gets its share of new jobs", Args: exactArgs("NAME"),
		Example: "  wakecall shard add redis-2 --url redis://:pw@10.0.0.7:6379/0",
		RunE: p.onRegistry(func(ctx context.Context, cfg *conf.Config, r *registry.Registry, args []string) error {
			if _, err := registered(r.Snapshot(), args[0]); err == nil {
				return fmt.Errorf("shard %s already exists: %s changes it", args[0],
					printable.Command("wakecall shard put", args[0]))
			}
			return p.putShard(ctx, cfg, r, args[0], url, string(registry.ShardActive))
		}),
	}
	p.addURLFlag(cmd, &url)
	return p.addOutputFlag(cmd)
}

func (p *program) addURLFlag(cmd *cobra.Command, url *string) {
	cmd.Flags().StringVar(url, "url", "",
		"`URL` as in redis.nodes; - reads it from standard input, so that its password is not in the process list")
}

func (p *program) putShard(ctx context.Context, cfg *conf.Config, r *registry.Registry, name, url, state string) error {
	url, err := p.shardURL(url)
	if err != nil {
		return err
	}
	s, err := mergedShard(r.Snapshot(), name, url, state)
	if err != nil {
		return err
	}
	silent, err := setup.TryShards(ctx, cfg, []registry.Shard{s})
	if err != nil {
		return err
	}
	if err := errors.Join(s.Validate(), setup.CheckRedis(ctx, cfg, r.ListShards(), s)); err != nil {
		return err
	}
	if err := r.PutShard(ctx, actor(), s); err != nil {
		return err
	}
	p.warnOfSilence(cfg, s, silent)
	return p.showShard(s, "saved")
}

// warnOfSilence prints why a shard cannot accept jobs yet. A shard may be registered before its Redis runs.
func (p *program) warnOfSilence(cfg *conf.Config, s registry.Shard, silent error) {
	if silent != nil {
		_, _ = fmt.Fprintf(p.err, "warning: %s; the shard gets jobs when it answers\n", printable.Line(silent.Error()))
	}
	if _, err := os.Stat(cfg.RedisSocket()); err != nil && setup.IsManaged([]registry.Shard{s}) {
		_, _ = fmt.Fprintln(p.err, "`wakecall up` starts its redis-server at its next start")
	}
}

func registered(snapshot *registry.Snapshot, name string) (registry.Shard, error) {
	for _, s := range snapshot.Shards {
		if s.Name == name {
			return s, nil
		}
	}
	return registry.Shard{Name: name}, fmt.Errorf("shard %s: %w", name, registry.ErrNoShard)
}

func (p *program) shardPutCommand() *cobra.Command {
	url, state := "", ""
	cmd := &cobra.Command{
		Use: "put NAME", Short: "add a shard, or change its URL or state", Args: exactArgs("NAME"),
		Example: `  wakecall shard put redis-2 --url redis://:pw@10.0.0.7:6379/0
  wakecall shard put redis-1 --state offline     # its jobs wait`,
		RunE: p.onRegistry(func(ctx context.Context, cfg *conf.Config, r *registry.Registry, args []string) error {
			return p.putShard(ctx, cfg, r, args[0], url, state)
		}),
	}
	p.addURLFlag(cmd, &url)
	cmd.Flags().StringVar(
		&state, "state", "", "active, draining (see drain) or offline (default: unchanged, or active)")
	complete(cmd, "state", string(registry.ShardActive), string(registry.ShardDraining), string(registry.ShardOffline))
	return p.addOutputFlag(cmd)
}

func (p *program) shardRenameCommand() *cobra.Command {
	return p.addOutputFlag(&cobra.Command{
		Use: "rename OLD NEW", Short: "rename a shard", Args: exactArgs("OLD", "NEW"),
		Long: "Renames a shard. Its jobs, leases and address stay. Processes use the new name within a second;\n" +
			"its charts start over.",
		RunE: p.onRegistry(func(ctx context.Context, _ *conf.Config, r *registry.Registry, args []string) error {
			if err := r.RenameShard(ctx, actor(), args[0], args[1]); err != nil {
				return err
			}
			s, err := registered(r.Snapshot(), args[1])
			if err != nil {
				return err
			}
			return p.showShard(s, "was renamed from "+args[0])
		}),
	})
}

func (p *program) shardURL(flag string) (string, error) {
	if flag != "-" {
		return flag, nil
	}
	text, err := io.ReadAll(p.in)
	if err != nil {
		return "", fmt.Errorf("read the URL: %w", err)
	}
	return strings.TrimSpace(string(document.Text(text))), nil
}

// mergedShard returns the registered shard, or a new one, with the given changes.
func mergedShard(snapshot *registry.Snapshot, name, url, state string) (registry.Shard, error) {
	s, err := registered(snapshot, name)
	if err != nil {
		s.State = registry.ShardActive
	}
	if url != "" {
		if s.URL, err = registry.UnmaskURL(url, s.URL); err != nil {
			return s, usagef("--url: %w", err)
		}
	}
	if state != "" {
		s.State = registry.ShardState(state)
	}
	if s.URL == "" {
		return s, usagef("shard %s is new: --url is required", name)
	}
	if s.URL == registry.ManagedShard {
		return s, nil
	}
	if _, err := address.Parse(s.URL); err != nil {
		return s, usagef("--url: %w", err)
	}
	return s, nil
}

func (p *program) shardDeleteCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: "delete NAME", Aliases: []string{"remove"}, Short: "remove a shard from the registry",
		Args: exactArgs("NAME"),
		Long: "Removes a shard that is empty or offline. Jobs in it are no longer called: drain it first.",
		RunE: p.onRegistry(func(ctx context.Context, cfg *conf.Config, r *registry.Registry, args []string) error {
			s, err := registered(r.Snapshot(), args[0])
			if err == nil && !force {
				err = forgettable(ctx, cfg, s)
			}
			if err != nil {
				return err
			}
			if err := r.DeleteShard(ctx, actor(), s.Name); err != nil {
				return err
			}
			return p.showShard(s, "removed")
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove it even if it is active or has jobs")
	return p.addOutputFlag(cmd)
}

// forgettable returns an error if a shard may contain jobs that would no longer be called.
func forgettable(ctx context.Context, cfg *conf.Config, s registry.Shard) error {
	if s.State == registry.ShardActive {
		return notEmpty(s.Name, "is active")
	}
	look := s
	look.State = registry.ShardDraining // offline shards are not opened
	shard, closeQueue, err := setup.OpenShard(ctx, cfg, look)
	if err != nil {
		return err
	}
	defer closeQueue()
	h := shard.Health(ctx)
	switch {
	case !h.Up && s.State != registry.ShardOffline:
		return fmt.Errorf("shard %s does not answer, and may have jobs: %s; --force removes it anyway", s.Name, h.Err)
	case h.Up && h.Jobs > 0:
		return notEmpty(s.Name, "has "+printable.Count(int(h.Jobs), "job"))
	}
	return nil
}

func notEmpty(shard, why string) error {
	return fmt.Errorf("shard %s %s: empty it first (%s); --force removes it now, with the jobs in it", shard, why,
		printable.Command("wakecall shard drain", shard))
}

func (p *program) showShard(s registry.Shard, done string) error {
	s.URL = registry.MaskURL(s.URL)
	return p.say(s, "shard %s (%s, %s) %s", printable.Line(s.Name), printable.Line(s.URL), s.State, done)
}

// withRegistry opens the registry's database for a command.
func (p *program) withRegistry(cmd *cobra.Command, f func(*conf.Config, *registry.Registry) error) (err error) {
	cfg, err := p.load(cmd)
	if err != nil {
		return err
	}
	if err := setup.MakeDataDir(cfg); err != nil {
		return err
	}
	r, err := setup.OpenRegistry(cfg, slog.New(slog.DiscardHandler), registry.MigrateEmpty, nil)
	if err != nil {
		return setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return f(cfg, r)
}

// onRegistry does what withRegistry does, for a command that needs the database to parse its arguments.
func (p *program) onRegistry(
	f func(ctx context.Context, cfg *conf.Config, r *registry.Registry, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return p.withRegistry(cmd, func(cfg *conf.Config, r *registry.Registry) error {
			return f(cmd.Context(), cfg, r, args)
		})
	}
}

// actor returns the user's name for the registry's audit trail.
func actor() string {
	u, err := user.Current()
	if err != nil {
		return "command line"
	}
	return "command line: " + u.Username
}
