package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/conf"
)

// configured prepares a command that needs the configuration and takes no arguments.
func (p *program) configured(
	cmd *cobra.Command, run func(ctx context.Context, cfg *conf.Config) error,
) *cobra.Command {
	return reading(p, cmd, conf.Load, run)
}

// onDataDir is like configured, for a command that queries the processes on data_dir even if other keys are invalid.
func (p *program) onDataDir(cmd *cobra.Command, run func(ctx context.Context, dir string) error) *cobra.Command {
	return reading(p, cmd, conf.DataDir, run)
}

func reading[T any](
	p *program, cmd *cobra.Command, read func(conf.LoadOptions) (T, error), run func(context.Context, T) error,
) *cobra.Command {
	addSettings(cmd)
	cmd.SetHelpFunc(helpWithoutSettings)
	cmd.Args = noArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		what, err := read(p.sources(cmd))
		if err != nil {
			return err
		}
		return run(cmd.Context(), what)
	}
	return cmd
}

// dataDir is the key whose flag all commands share.
const dataDir = "data_dir"

// addSettings gives a command a flag for every other key of the configuration.
func addSettings(cmd *cobra.Command) {
	for _, k := range conf.Keys(app.GatewayKeys()) {
		if k.Path != dataDir {
			addSetting(cmd.Flags(), k)
		}
	}
}

func addSetting(flags *pflag.FlagSet, k conf.Key) { flags.String(k.Flag(), k.Default, k.Summary()) }

// helpWithoutSettings shows only a command's own flags: they would be hard to find among the flags for all keys.
func helpWithoutSettings(cmd *cobra.Command, args []string) {
	hideSettings(cmd)
	cmd.Root().HelpFunc()(cmd, args)
	_, _ = fmt.Fprintln(cmd.OutOrStdout(), "\nEvery key of the configuration is also a flag, such as --redis-nodes: "+
		"`wakecall config --help` lists them.")
}

func hideSettings(cmd *cobra.Command) {
	for _, k := range conf.Keys(app.GatewayKeys()) {
		if k.Path != dataDir {
			_ = cmd.Flags().MarkHidden(k.Flag()) // an error says that the command has no such flag
		}
	}
}

// load returns the configuration, with the values of a command's flags.
func (p *program) load(cmd *cobra.Command) (*conf.Config, error) { return conf.Load(p.sources(cmd)) }

// sources returns where the configuration of a command comes from.
func (p *program) sources(cmd *cobra.Command) conf.LoadOptions {
	gateways, given := app.GatewayKeys(), map[string]string{}
	for _, k := range conf.Keys(gateways) {
		if f := cmd.Flags().Lookup(k.Flag()); f != nil && f.Changed {
			given[k.Path] = f.Value.String()
		}
	}
	return conf.LoadOptions{
		File: p.configFile, Env: p.env, Foreign: p.foreignVariables(), Flags: given, Gateways: gateways,
	}
}

func (p *program) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", GroupID: groupCare, Short: "show the effective configuration and the source of each value",
		Args: noArgs,
	}
	addSettings(cmd)
	reference := false
	cmd.Flags().BoolVar(&reference, "reference", false, "print the reference file, with every key and its default")
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
			err := table(w, []string{"KEY", "VALUE", "SOURCE"}, list, func(s conf.Setting) []string {
				return []string{s.Key, s.Value, s.Source}
			})
			if err == nil && cfg.File() == "" {
				_, err = fmt.Fprintln(
					w, "no configuration file; `wakecall config --reference` prints one to start from")
			}
			return err
		})
	}
	return p.addOutputFlag(cmd)
}
