package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

func (p *program) versionCommand() *cobra.Command {
	return p.addOutputFlag(&cobra.Command{
		Use: "version", GroupID: groupCare, Short: "show the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return p.show(v, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "wakecall %s (%s, %s)\n", v["version"], v["go"], v["platform"])
				return err
			})
		},
	})
}
