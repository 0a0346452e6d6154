package main

import (
	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/logging"
)

// roleCommands run one role alone in the foreground, as containers and systemd want it.
func (a *cli) roleCommands() []*cobra.Command {
	return []*cobra.Command{
		a.roleCommand(app.RoleServer, "run the HTTP API alone, in the foreground"),
		a.roleCommand(app.RoleTimer, "run one timer alone: it moves due jobs and returns expired leases"),
		a.roleCommand(app.RoleDispatcher, "run one dispatcher alone: it calls the endpoints"),
		a.roleCommand(app.RoleChecker, "run the redis-checker alone: it watches every shard"),
		a.roleCommand(app.RoleAdmin, "run the web admin alone, in the foreground"),
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
