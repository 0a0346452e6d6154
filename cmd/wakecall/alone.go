package main

import (
	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/logging"
)

// roleCommands run one role alone in the foreground, as containers and systemd want it.
func (a *cli) roleCommands() []*cobra.Command {
	return []*cobra.Command{
		a.roleCommand(app.RoleServer, "the HTTP API alone, in the foreground"),
		a.roleCommand(app.RoleTimer, "one timer alone: moves due jobs, returns expired leases"),
		a.roleCommand(app.RoleDispatcher, "one dispatcher alone: calls the endpoints"),
		a.roleCommand(app.RoleChecker, "the redis-checker alone: watches every shard"),
		a.roleCommand(app.RoleAdmin, "the web admin alone, in the foreground"),
	}
}

func (a *cli) roleCommand(name, short string) *cobra.Command {
	cmd := &cobra.Command{Use: name, GroupID: groupRun, Short: short, Args: noArgs}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.load(s)
		if err != nil {
			return err
		}
		return app.RunAlone(cmd.Context(), cfg, name, version, logging.New(cfg, a.err, name))
	}
	return cmd
}
