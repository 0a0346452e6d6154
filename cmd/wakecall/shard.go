package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/database"
	"github.com/wakecall/wakecall/printable"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/registry"
	"github.com/wakecall/wakecall/setup"
)

func (a *cli) shardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "shard", GroupID: groupCare, Short: "list, add, drain and forget the Redis deployments that hold the jobs", Args: noArgs,
		Long: "The registry holds the list of shards; redis.nodes seeds it at the first start and is not looked at afterwards.\n" +
			"list asks the API how the shards are; the others change the registry's database directly.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.shardListCommand(), a.shardAddCommand(), a.shardPutCommand(), a.shardDrainCommand(), a.shardDeleteCommand())
	return cmd
}

func (a *cli) shardListCommand() *cobra.Command {
	return a.addClientFlags(&cobra.Command{
		Use: "list", Short: "show the shards and how they are", Args: noArgs,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			shards, err := c.Shards(ctx)
			if err != nil {
				return err
			}
			return a.show(shards, func(w io.Writer) error { return shardTable(w, shards) })
		}),
	})
}

func shardTable(w io.Writer, shards []client.Shard) error {
	var rows [][]string
	for _, s := range shards {
		health := "up"
		if !s.Up {
			health = "down: " + s.Error
		}
		memory := printable.Bytes(s.Memory)
		if s.MaxMemory > 0 {
			memory += " of " + printable.Bytes(s.MaxMemory)
		}
		latency := printable.Duration(time.Duration(s.Latency * float64(time.Second)))
		jobs := strconv.FormatInt(s.Jobs, 10)
		if s.Moved > 0 {
			jobs += fmt.Sprintf(" (%d moved)", s.Moved)
		}
		rows = append(rows, []string{s.Name, s.State, latency, memory, jobs, health})
	}
	return table(w, []string{"SHARD", "STATE", "LATENCY", "MEMORY", "JOBS", "HEALTH"}, rows)
}

func (a *cli) shardAddCommand() *cobra.Command {
	url := ""
	cmd := &cobra.Command{
		Use: "add NAME", Short: "add a shard; new jobs go there from now on, as to the others", Args: exactArgs("NAME"),
		Example: "  wakecall shard add redis-2 --url redis://:pw@10.0.0.7:6379/0",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRegistry(func(cfg *conf.Config, r *registry.Registry) error {
				if _, err := registered(r.Snapshot(), args[0]); err == nil {
					return fmt.Errorf("there is a shard %[1]s already: wakecall shard put %[1]s changes it", args[0])
				}
				return a.putShard(cmd.Context(), cfg, r, args[0], url, string(registry.ShardActive))
			})
		},
	}
	a.addURLFlag(cmd, &url)
	return a.addOutputFlag(cmd)
}

func (a *cli) addURLFlag(cmd *cobra.Command, url *string) {
	cmd.Flags().StringVar(url, "url", "", "`URL` as in redis.nodes; - reads it from the standard input, so that its password is not in the process list")
}

func (a *cli) putShard(ctx context.Context, cfg *conf.Config, r *registry.Registry, name, url, state string) error {
	url, err := a.shardURL(url)
	if err != nil {
		return err
	}
	s, err := mergedShard(r.Snapshot(), name, url, state)
	if err != nil {
		return err
	}
	if err := setup.CheckPasswords(ctx, cfg, []registry.Shard{s}); err != nil {
		return err
	}
	if err := r.PutShard(ctx, actor(), s); err != nil {
		return err
	}
	return a.showShard(s, "saved")
}

func registered(snapshot *registry.Snapshot, name string) (registry.Shard, error) {
	for _, s := range snapshot.Shards {
		if s.Name == name {
			return s, nil
		}
	}
	return registry.Shard{Name: name}, fmt.Errorf("shard %s: %w", name, registry.ErrNoShard)
}

func (a *cli) shardPutCommand() *cobra.Command {
	url, state := "", ""
	cmd := &cobra.Command{
		Use: "put NAME", Short: "add a shard, or change its URL or state", Args: exactArgs("NAME"),
		Example: `  wakecall shard put redis-2 --url redis://:pw@10.0.0.7:6379/0
  wakecall shard put redis-1 --state offline     # its jobs wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRegistry(func(cfg *conf.Config, r *registry.Registry) error {
				return a.putShard(cmd.Context(), cfg, r, args[0], url, state)
			})
		},
	}
	a.addURLFlag(cmd, &url)
	cmd.Flags().StringVar(&state, "state", "", "active, draining (see drain) or offline (default: as it is; active for a new one)")
	states := []string{string(registry.ShardActive), string(registry.ShardDraining), string(registry.ShardOffline)}
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	return a.addOutputFlag(cmd)
}

func (a *cli) shardURL(flag string) (string, error) {
	if flag != "-" {
		return flag, nil
	}
	text, err := io.ReadAll(a.in)
	if err != nil {
		return "", fmt.Errorf("reading the URL: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// mergedShard is the shard as it is, if it is, with what was given.
func mergedShard(snapshot *registry.Snapshot, name, url, state string) (registry.Shard, error) {
	s, err := registered(snapshot, name)
	if err != nil {
		s.State = registry.ShardActive
	}
	if url != "" {
		s.URL = url
	}
	if state != "" {
		s.State = registry.ShardState(state)
	}
	if s.URL == "" {
		return s, usagef("there is no shard %s yet: give its --url", name)
	}
	if s.URL == registry.ManagedShard {
		return s, nil
	}
	if _, err := conf.ParseNode(s.URL); err != nil {
		return s, usagef("--url: %w", err)
	}
	return s, nil
}

const drainLong = "The shard takes no new jobs. It delivers what is due within seconds and gives the rest, with its attempts and times, to the active shards; " +
	"nothing is lost, called twice or delayed by that. It goes on when this command is interrupted. Afterwards the shard can be deleted."

func (a *cli) shardDrainCommand() *cobra.Command {
	detach := false
	cmd := &cobra.Command{
		Use: "drain NAME", Short: "empty a shard: its jobs go to the active ones", Args: exactArgs("NAME"), Long: drainLong,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRegistry(func(cfg *conf.Config, r *registry.Registry) error {
				s, err := registered(r.Snapshot(), args[0])
				if err != nil {
					return err
				}
				if !registry.OtherActive(r.Snapshot().Shards, s.Name) {
					return fmt.Errorf("shard %s is the only active one: its jobs would have nowhere to go. Add another first (wakecall shard add NAME --url URL)", s.Name)
				}
				if s.State != registry.ShardDraining {
					s.State = registry.ShardDraining
					if err := r.PutShard(cmd.Context(), actor(), s); err != nil {
						return err
					}
				}
				if detach {
					return a.showShard(s, "takes no new jobs, and gives the others away")
				}
				return a.watchDrain(cmd.Context(), cfg, s)
			})
		},
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait until it is empty")
	return a.addOutputFlag(cmd)
}

// watchDrain shows how far it is until the shard is empty.
func (a *cli) watchDrain(ctx context.Context, cfg *conf.Config, s registry.Shard) error {
	shard, closeQueue, err := setup.OpenShard(ctx, cfg, s)
	if err != nil {
		return err
	}
	defer closeQueue()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	began, first, line := time.Now(), int64(-1), ""
	for {
		h := shard.Health(ctx)
		if h.Up && first < 0 {
			first = h.Jobs
		}
		if now := drainLine(&h, first, time.Since(began)); now != line && ctx.Err() == nil {
			line = now
			_, _ = fmt.Fprintln(a.err, printable.Line(line))
		}
		if h.Up && h.Jobs == 0 {
			return a.showShard(s, fmt.Sprintf("is empty; wakecall shard delete %s forgets it", printable.Line(s.Name)))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("shard %s goes on draining: %w", s.Name, ctx.Err())
		case <-t.C:
		}
	}
}

func drainLine(h *queue.ShardHealth, first int64, since time.Duration) string {
	if !h.Up {
		return fmt.Sprintf("%s: does not answer: %s", h.Name, h.Err)
	}
	line := fmt.Sprintf("%s: %s left, %d moved", h.Name, printable.Count(int(h.Jobs), "job"), h.Moved)
	if gone := first - h.Jobs; gone > 0 && h.Jobs > 0 {
		line += fmt.Sprintf(", about %s to go", printable.Duration(time.Duration(float64(since)*float64(h.Jobs)/float64(gone)).Round(time.Second)))
	}
	return line
}

func (a *cli) shardDeleteCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: "delete NAME", Aliases: []string{"remove"}, Short: "forget a shard", Args: exactArgs("NAME"),
		Long: "Forgets a shard that is empty, or offline. Jobs that are still in it stay there, and are not called any more: drain it first.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRegistry(func(cfg *conf.Config, r *registry.Registry) error {
				s, err := registered(r.Snapshot(), args[0])
				if err == nil && !force {
					err = forgettable(cmd.Context(), cfg, s)
				}
				if err != nil {
					return err
				}
				if err := r.DeleteShard(cmd.Context(), actor(), s.Name); err != nil {
					return err
				}
				return a.showShard(s, "forgotten")
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "whatever its state, and even if there are jobs in it")
	return a.addOutputFlag(cmd)
}

// forgettable says whether no job is left behind, as far as can be seen.
func forgettable(ctx context.Context, cfg *conf.Config, s registry.Shard) error {
	if s.State == registry.ShardActive {
		return fmt.Errorf("shard %[1]s is active: empty it first (wakecall shard drain %[1]s); --force forgets it now, with the jobs in it", s.Name)
	}
	look := s
	look.State = registry.ShardDraining // offline ones are not opened
	shard, closeQueue, err := setup.OpenShard(ctx, cfg, look)
	if err != nil {
		return err
	}
	defer closeQueue()
	h := shard.Health(ctx)
	switch {
	case !h.Up && s.State != registry.ShardOffline:
		return fmt.Errorf("shard %s does not answer, so that nobody can say whether there are jobs in it: %s; --force forgets it all the same", s.Name, h.Err)
	case h.Up && h.Jobs > 0:
		return fmt.Errorf("shard %[1]s has %[2]s: empty it first (wakecall shard drain %[1]s); --force forgets it now, with the jobs in it",
			s.Name, printable.Count(int(h.Jobs), "job"))
	}
	return nil
}

func (a *cli) showShard(s registry.Shard, done string) error {
	s.URL = database.MaskURL(s.URL)
	return a.show(s, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "shard %s (%s, %s) %s\n", printable.Line(s.Name), printable.Line(s.URL), s.State, done)
		return err
	})
}

// withRegistry opens the registry's database for a command.
func (a *cli) withRegistry(f func(*conf.Config, *registry.Registry) error) (err error) {
	cfg, err := a.config(nil)
	if err != nil {
		return err
	}
	if err := setup.MakeDataDir(cfg); err != nil {
		return err
	}
	r, err := setup.OpenRegistry(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return f(cfg, r)
}

// actor is who the registry's audit trail says it was.
func actor() string {
	u, err := user.Current()
	if err != nil {
		return "command line"
	}
	return "command line: " + u.Username
}
