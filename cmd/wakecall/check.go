package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/printable"
	"github.com/wakecall/wakecall/setup"
)

func (p *program) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", GroupID: groupCare, Short: "check the configuration and every connection in it", Args: noArgs,
		Long: "Checks what `wakecall up` would use: directories, ports, the registry's database and its schema,\n" +
			"every Redis with its version, settings and clock, and where callbacks may go. It changes nothing,\n" +
			"and can run while Wakecall is up. The exit code is 1 if something would fail or lose jobs.",
	}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.load(s)
		if err != nil {
			return err
		}
		findings := setup.Check(cmd.Context(), cfg)
		if err := p.show(findings, func(w io.Writer) error { return findingsTable(w, findings) }); err != nil {
			return err
		}
		for _, f := range findings {
			if f.Verdict == setup.Failed {
				return failure{}
			}
		}
		return nil
	}
	return p.addOutputFlag(cmd)
}

func findingsTable(w io.Writer, findings []setup.Finding) error {
	var rows [][]string
	warnings, failures := 0, 0
	for _, f := range findings {
		detail := f.Detail
		if f.Advice != "" {
			detail += ". " + f.Advice
		}
		rows = append(rows, []string{f.What, string(f.Verdict), detail})
		switch f.Verdict {
		case setup.Warning:
			warnings++
		case setup.Failed:
			failures++
		}
	}
	if err := columns(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, summary(warnings, failures))
	return err
}

func summary(warnings, failures int) string {
	switch {
	case failures > 0:
		return fmt.Sprintf("%s and %s", printable.Count(failures, "failure"), printable.Count(warnings, "warning"))
	case warnings > 0:
		return fmt.Sprintf("it works, with %s", printable.Count(warnings, "warning"))
	}
	return "all good"
}
