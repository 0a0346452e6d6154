package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/app"
)

// configured prepares a command that needs the configuration and takes no arguments.
func (p *program) configured(
	cmd *cobra.Command, run func(ctx context.Context, cfg *conf.Config) error,
) *cobra.Command {
	addSettings(cmd)
	cmd.SetHelpFunc(helpWithoutSettings)
	cmd.Args = noArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		return run(cmd.Context(), cfg)
	}
	return cmd
}

// settings returns the table of the configuration's keys without data_dir, whose flag every command has.
func settings() []conf.Key {
	return slices.DeleteFunc(conf.Keys(app.GatewayKeys()), func(k conf.Key) bool { return k.Path == "data_dir" })
}

// addSettings gives a command a flag for every key that has none yet.
func addSettings(cmd *cobra.Command) {
	flags := cmd.Flags()
	for _, k := range settings() {
		if flags.Lookup(k.Flag()) == nil {
			flags.String(k.Flag(), k.Default, k.Summary())
		}
	}
}

// helpWithoutSettings shows only a command's own flags, which would be hard to find among those for all keys.
func helpWithoutSettings(cmd *cobra.Command, args []string) {
	for _, k := range settings() {
		_ = cmd.Flags().MarkHidden(k.Flag())
	}
	cmd.Root().HelpFunc()(cmd, args)
	_, _ = fmt.Fprintln(cmd.OutOrStdout(), "\nEvery key of the configuration is also a flag, such as --redis-nodes: "+
		"`wakecall config --help` lists them.")
}

// load returns the configuration, with the values of a command's own flags.
func (p *program) load(cmd *cobra.Command) (*conf.Config, error) {
	given := map[string]string{}
	for _, k := range settings() {
		if f := cmd.Flags().Lookup(k.Flag()); f != nil && f.Changed {
			given[k.Path] = f.Value.String()
		}
	}
	return p.config(given)
}

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", GroupID: groupCare, Short: "show the effective configuration and the source of each value",
		Args: noArgs,
	}
	addSettings(cmd)
	reference := false
	cmd.Flags().BoolVar(&reference, "reference", false, "print the commented reference file instead")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if reference {
			_, err := p.out.Write(conf.Reference)
			return err
		}
		cfg, err := p.load(cmd)
		if err != nil {
			return err
		}
		list := cfg.Effective()
		return p.show(list, func(w io.Writer) error {
			var rows [][]string
			for _, e := range list {
				rows = append(rows, []string{e.Key, e.Value, e.Source})
			}
			if err := table(w, []string{"KEY", "VALUE", "SOURCE"}, rows); err != nil {
				return err
			}
			if cfg.File() == "" {
				_, err = fmt.Fprintln(w, "there is no configuration file; `wakecall config --reference` prints one to start from")
			}
			return err
		})
	}
	return p.addOutputFlag(cmd)
}
