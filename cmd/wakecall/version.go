package main

import (
	"runtime"
	"runtime/debug"

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

// moduleVersion returns the version that the go command built.
func moduleVersion() string {
	b, ok := debug.ReadBuildInfo()
	if !ok || b.Main.Version == "" || b.Main.Version == "(devel)" {
		return "dev"
	}
	return b.Main.Version
}
