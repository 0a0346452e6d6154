package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log/printable"
)

func (p *program) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", GroupID: groupCare, Short: "check the configuration and every connection in it",
		Long: "Checks what `wakecall up` would use: directories, ports, the registry's database and its schema,\n" +
			"every Redis with its version, settings and clock, where callbacks may go, and the gateways' files.\n" +
			"It changes nothing, and can run while Wakecall is up. The exit code is 1 if something would fail\n" +
			"or lose jobs.",
	}
	return p.addOutputFlag(p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		findings := append(setup.Check(ctx, cfg), checkGateways(cfg)...)
		if err := p.show(findings, func(w io.Writer) error { return findingsTable(w, findings) }); err != nil {
			return err
		}
		if slices.ContainsFunc(findings, func(f setup.Finding) bool { return f.Verdict == setup.Failed }) {
			return failure{}
		}
		return nil
	}))
}

func checkGateways(cfg *conf.Config) []setup.Finding {
	err := app.CheckGateways(cfg)
	if err == nil {
		return nil
	}
	return []setup.Finding{{
		What: "gateways", Verdict: setup.Failed, Detail: printable.Error(err),
		Advice: "Give this user a file with one USER:PASSWORD per line: until then nobody is served there",
	}}
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
		return fmt.Sprintf("no failures, %s", printable.Count(warnings, "warning"))
	}
	return "all good"
}
