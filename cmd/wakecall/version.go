package main

import (
	"runtime"

	"github.com/spf13/cobra"
)

func (p *program) versionCommand() *cobra.Command {
	return p.addOutputFlag(&cobra.Command{
		Use: "version", GroupID: groupCare, Short: "show the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(),
				"platform": runtime.GOOS + "/" + runtime.GOARCH}
			return p.say(v, "wakecall %s (%s, %s)", v["version"], v["go"], v["platform"])
		},
	})
}
