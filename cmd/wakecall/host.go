package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/registry"
)

const hostForgetLong = `Tells the shards that a host will not be back. A shard that has lost data answers
503 for ids that it does not have while they may be in the journal of an absent
host. Afterwards it answers 404: jobs that only this journal has are lost. To
keep them, copy the journal and run wakecall recover --journal first.`

func (p *program) hostCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "host", GroupID: groupCare, Short: "list the hosts that use the shards, forget one that will not be back",
	}, p.hostListCommand(), p.hostForgetCommand())
}

func (p *program) hostListCommand() *cobra.Command {
	return p.addOutputFlag(&cobra.Command{
		Use: "list", Short: "show the hosts that the shards know", Args: noArgs,
		RunE: p.onShards(func(ctx context.Context, q *queue.Queue, _ []string) error {
			hosts, err := reconcile.Hosts(ctx, q)
			if err != nil {
				return err
			}
			return p.show(hosts, func(w io.Writer) error {
				head := []string{"HOST", "STATE", "SEEN", "ABSENT FROM"}
				return table(w, head, hosts, func(h reconcile.Host) []string {
					return []string{h.Name, h.State, describe.Instant(h.Seen, p.now()), strings.Join(h.Absent, ", ")}
				})
			})
		}),
	})
}

func (p *program) hostForgetCommand() *cobra.Command {
	return p.addOutputFlag(&cobra.Command{
		Use: "forget HOST", Short: "do not wait for a host's journal any longer", Args: exactArgs("HOST"),
		Long: hostForgetLong,
		RunE: p.onShards(func(ctx context.Context, q *queue.Queue, args []string) error {
			if err := reconcile.ForgetHost(ctx, q, args[0]); err != nil {
				return err
			}
			return p.say(map[string]string{"forgotten": args[0]}, "%s forgotten", printable.Line(args[0]))
		}),
	})
}

// onShards runs a command on the shards in use.
func (p *program) onShards(
	run func(ctx context.Context, q *queue.Queue, args []string) error,
) func(cmd *cobra.Command, args []string) error {
	return p.onRegistry(func(ctx context.Context, cfg *conf.Config, r *registry.Registry, args []string) error {
		q, err := setup.OpenQueue(ctx, cfg, r.Snapshot().Shards)
		if err != nil {
			return fmt.Errorf("open the shards: %w", err)
		}
		defer func() { _ = q.Close() }()
		return run(ctx, q, args)
	})
}
