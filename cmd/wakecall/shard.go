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
	"github.com/wakecall/wakecall/registry"
)

func (a *app) shardCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "shard", GroupID: groupCare, Short: "list, add, drain and forget the Redis deployments that hold the jobs", Args: noArgs,
		Long: "The registry holds the list of shards; redis.nodes seeds it at the first start and is not looked at afterwards.\n" +
			"list asks the API how the shards are; put and delete change the registry's database directly.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.shardListCommand(), a.shardPutCommand(), a.shardDeleteCommand())
	return cmd
}

func (a *app) shardListCommand() *cobra.Command {
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
		memory := byteSize(s.Memory)
		if s.MaxMemory > 0 {
			memory += " of " + byteSize(s.MaxMemory)
		}
		latency := rounded(time.Duration(s.Latency * float64(time.Second)))
		rows = append(rows, []string{s.Name, s.State, latency, memory, strconv.FormatInt(s.Jobs, 10), health})
	}
	return table(w, []string{"SHARD", "STATE", "LATENCY", "MEMORY", "JOBS", "HEALTH"}, rows)
}

func (a *app) shardPutCommand() *cobra.Command {
	url, state := "", ""
	cmd := &cobra.Command{
		Use: "put NAME", Short: "add a shard, or change its URL or state", Args: exactArgs("NAME"),
		Example: `  wakecall shard put redis-2 --url redis://:pw@10.0.0.7:6379/0
  wakecall shard put redis-1 --state draining    # delivers what it has, takes no new jobs`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRegistry(func(cfg *conf.Config, r *registry.Registry) error {
				url, err := a.shardURL(url)
				if err != nil {
					return err
				}
				s, err := mergedShard(r.Snapshot(), args[0], url, state)
				if err != nil {
					return err
				}
				if err := checkPasswords(cmd.Context(), cfg, []registry.Shard{s}); err != nil {
					return err
				}
				if err := r.PutShard(cmd.Context(), actor(), s); err != nil {
					return err
				}
				return a.showShard(s, "saved")
			})
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "`URL` as in redis.nodes; - reads it from the standard input, so that its password is not in the process list")
	cmd.Flags().StringVar(&state, "state", "", "active, draining (takes no new jobs) or offline (default: as it is; active for a new one)")
	states := []string{string(registry.ShardActive), string(registry.ShardDraining), string(registry.ShardOffline)}
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	return a.addOutputFlag(cmd)
}

func (a *app) shardURL(flag string) (string, error) {
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
	s := registry.Shard{Name: name, State: registry.ShardActive}
	for _, have := range snapshot.Shards {
		if have.Name == name {
			s = have
		}
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

func (a *app) shardDeleteCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "forget a shard", Args: exactArgs("NAME"),
		Long: "Forgets a shard. Jobs that are still in it stay there, and are not called any more: drain it first.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRegistry(func(_ *conf.Config, r *registry.Registry) error {
				s := registry.Shard{Name: args[0]}
				for _, have := range r.Snapshot().Shards {
					if have.Name == s.Name {
						s = have
					}
				}
				if s.State != registry.ShardOffline && s.State != "" && !force {
					return fmt.Errorf("shard %[1]s is %[2]s: take no new jobs (wakecall shard put %[1]s --state draining), wait until it has none "+
						"(wakecall shard list), take it offline and delete it; --force forgets it now, with the jobs in it", s.Name, s.State)
				}
				if err := r.DeleteShard(cmd.Context(), actor(), s.Name); err != nil {
					return err
				}
				return a.showShard(s, "forgotten")
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "even if it is not offline")
	return a.addOutputFlag(cmd)
}

func (a *app) showShard(s registry.Shard, done string) error {
	s.URL = registry.MaskURL(s.URL)
	return a.show(s, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "shard %s (%s, %s) %s\n", s.Name, s.URL, s.State, done)
		return err
	})
}

// withRegistry opens the registry's database for a command.
func (a *app) withRegistry(f func(*conf.Config, *registry.Registry) error) (err error) {
	cfg, err := a.config(nil)
	if err != nil {
		return err
	}
	if err := makeDataDir(cfg); err != nil {
		return err
	}
	r, err := openRegistry(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return adviseOnRegistry(cfg, err)
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
