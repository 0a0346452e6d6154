package main

import (
	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/logging"
)

// roleCommands run one role alone in the foreground, as containers and systemd want it.
func (p *program) roleCommands() []*cobra.Command {
	return []*cobra.Command{
		p.roleCommand(app.RoleServer, "run the HTTP API alone, in the foreground"),
		p.roleCommand(app.RoleTimer, "run one timer alone: it moves due jobs and returns expired leases"),
		p.roleCommand(app.RoleDispatcher, "run one dispatcher alone: it calls the endpoints"),
		p.roleCommand(app.RoleChecker, "run the redis-checker alone: it watches every shard"),
		p.roleCommand(app.RoleAdmin, "run the web admin alone, in the foreground"),
		p.roleCommand(app.RoleGateway, "run the gateways alone: they speak other systems' protocols"),
	}
}

func (p *program) roleCommand(name, short string) *cobra.Command {
	cmd := &cobra.Command{Use: name, GroupID: groupRun, Short: short, Args: noArgs}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.load(s)
		if err != nil {
			return err
		}
		return app.RunAlone(cmd.Context(), cfg, name, version, logging.New(cfg, p.err, name))
	}
	return cmd
}
