package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log"
)

// roleCommands returns the commands that run one role alone in the foreground, for containers and systemd.
func (p *program) roleCommands() []*cobra.Command {
	return []*cobra.Command{
		p.roleCommand(app.RoleServer, "run the HTTP API alone, in the foreground"),
		p.roleCommand(app.RoleTimer, "run one timer alone: it makes due jobs ready and returns expired leases"),
		p.roleCommand(app.RoleDispatcher, "run one dispatcher alone: it calls the endpoints"),
		p.roleCommand(app.RoleChecker, "run the redis-checker alone: it watches every shard"),
		p.roleCommand(app.RoleAdmin, "run the web admin alone, in the foreground"),
		p.roleCommand(app.RoleGateway, "run the gateways alone: they speak other systems' protocols"),
	}
}

func (p *program) roleCommand(name, short string) *cobra.Command {
	cmd := &cobra.Command{Use: name, GroupID: groupRun, Short: short}
	return p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		p.signals.outliveLog()
		p.lasts()
		return app.RunAlone(ctx, cfg, name, version, log.New(cfg, p.err, name))
	})
}
