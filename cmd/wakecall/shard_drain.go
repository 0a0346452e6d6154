package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

const drainLong = "Empties a shard. It takes no new jobs; jobs that are due within seconds are delivered, and\n" +
	"the others move to the active shards with their attempts and times. No job is lost, called twice or\n" +
	"delayed. Draining continues if this command is interrupted. Delete the shard when it is empty."

func (p *program) shardDrainCommand() *cobra.Command {
	detach := false
	cmd := &cobra.Command{
		Use: "drain NAME", Short: "empty a shard: move its jobs to the active shards", Args: exactArgs("NAME"),
		Long: drainLong,
		RunE: p.onRegistry(func(ctx context.Context, cfg *conf.Config, r *registry.Registry, args []string) error {
			s, err := registered(r.Snapshot(), args[0])
			if err != nil {
				return err
			}
			if !registry.OtherActive(r.Snapshot().Shards, s.Name) {
				return fmt.Errorf("shard %s is the only active one: no other can take its jobs. "+
					"Add another first (wakecall shard add NAME --url URL)", s.Name)
			}
			if s.State != registry.ShardDraining {
				s.State = registry.ShardDraining
				if err := r.PutShard(ctx, actor(), s); err != nil {
					return err
				}
			}
			if detach {
				return p.showShard(s, "is draining")
			}
			return p.watchDrain(ctx, cfg, s)
		}),
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait until the shard is empty")
	return p.addOutputFlag(cmd)
}

// watchDrain shows progress until the shard is empty.
func (p *program) watchDrain(ctx context.Context, cfg *conf.Config, s registry.Shard) error {
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
			_, _ = fmt.Fprintln(p.err, printable.Line(line))
		}
		if h.Up && h.Jobs == 0 {
			return p.showShard(s, "is empty; "+printable.Command("wakecall shard delete", s.Name)+" removes it")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("shard %s continues to drain: %w", s.Name, ctx.Err())
		case <-t.C:
		}
	}
}

func drainLine(h *store.ShardHealth, first int64, since time.Duration) string {
	if !h.Up {
		return fmt.Sprintf("%s: does not answer: %s", h.Name, h.Err)
	}
	line := fmt.Sprintf("%s: %s left, %d moved", h.Name, printable.Count(int(h.Jobs), "job"), h.Moved)
	if gone := first - h.Jobs; gone > 0 && h.Jobs > 0 {
		left := time.Duration(float64(since) * float64(h.Jobs) / float64(gone))
		line += fmt.Sprintf(", about %s to go", printable.Duration(left.Round(time.Second)))
	}
	return line
}
