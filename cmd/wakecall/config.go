package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/conf"
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

// addSettings gives a command a flag for every key of the configuration but data_dir, which every command has.
func addSettings(cmd *cobra.Command) {
	flags := cmd.Flags()
	for _, k := range conf.Keys() {
		if flags.Lookup(k.Flag()) != nil || k.Path == "data_dir" {
			continue
		}
		flags.Var(&rawFlag{shown: k.Default}, k.Flag(), k.Doc)
	}
}

// helpWithoutSettings shows only a command's own flags, which would be hard to find among those for all keys.
func helpWithoutSettings(cmd *cobra.Command, args []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, setting := f.Value.(*rawFlag); setting {
			f.Hidden = true
		}
	})
	cmd.Root().HelpFunc()(cmd, args)
	_, _ = fmt.Fprintln(cmd.OutOrStdout(), "\nEvery key of the configuration is a flag, too, such as --redis-nodes: "+
		"`wakecall config --help` lists them.")
}

// load returns the configuration, with the values of a command's own flags.
func (p *program) load(cmd *cobra.Command) (*conf.Config, error) {
	given := map[string]string{}
	for _, k := range conf.Keys() {
		if f := cmd.Flags().Lookup(k.Flag()); f != nil && f.Changed && k.Path != "data_dir" {
			given[k.Path] = f.Value.String()
		}
	}
	return p.config(given)
}

// rawFlag stores text that package conf parses, so that flags and files share one syntax and one kind of error.
type rawFlag struct {
	value, shown string
	set          bool
}

func (f *rawFlag) String() string {
	if f.set {
		return f.value
	}
	return f.shown
}

// Set keeps the text.
func (f *rawFlag) Set(s string) error {
	f.value, f.set = s, true
	return nil
}

// Type returns the name of the value in the help.
func (f *rawFlag) Type() string { return "VALUE" }

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
