package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/test/bench"
)

func (p *program) benchCommand() *cobra.Command {
	var opts bench.Options
	file := ""
	names, abouts := bench.Groups()
	var rows strings.Builder
	for i, name := range names {
		fmt.Fprintf(&rows, "  %-10s %s\n", name, abouts[i])
	}
	cmd := &cobra.Command{
		Use: "bench", GroupID: groupCare, Args: noArgs,
		Short: "compare a private installation with the limits of this machine",
		Long: "Starts a private installation in a temporary directory on free ports, measures it and what this\n" +
			"machine does without Wakecall in the same run, and removes it. The load generator runs in this\n" +
			"process, the endpoint and the bare echo handler in processes of their own. Run nothing else\n" +
			"meanwhile. The rows of --only:\n\n" + rows.String(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := refuseZero(cmd.Flags(), "runs"); err != nil {
				return err
			}
			if opts.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			opts.Version = version
			opts.Progress = func(s string) { fmt.Fprintln(p.err, s) }
			report, err := bench.Run(cmd.Context(), opts)
			if err != nil {
				if cmd.Context().Err() != nil {
					return errors.New("interrupted")
				}
				return err
			}
			if file != "" {
				if err := saveReport(file, report); err != nil {
					return err
				}
			}
			if p.output == formatJSON {
				return report.JSON(p.out)
			}
			return report.Table(p.out)
		},
	}
	cmd.Flags().BoolVar(&opts.Quick, "quick", false, "measure for seconds only, and be less precise")
	cmd.Flags().IntVar(&opts.Runs, "runs", 0, "report medians of this number of runs (default 3; 1 with --quick)")
	cmd.Flags().StringSliceVar(&opts.Only, "only", nil, "measure only these `ROWS`, separated by commas")
	cmd.Flags().StringVar(&file, "report", "", "also write the JSON with all raw figures to `FILE`")
	complete(cmd, "only", names...)
	return p.addOutputFlag(cmd)
}

func saveReport(file string, report *bench.Report) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return errors.Join(report.JSON(f), f.Close())
}

// benchHelperCommand returns the command for the helper processes of the benchmark.
func (p *program) benchHelperCommand() *cobra.Command {
	return &cobra.Command{
		Use: "bench-helper NAME", Hidden: true, Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.RunHelper(cmd.Context(), args[0], p.in, p.out)
		},
	}
}
