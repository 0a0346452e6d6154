package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/conf"
)

// verdict is how a check ended.
type verdict string

const (
	good    verdict = "ok"
	warning verdict = "warning"
	bad     verdict = "FAILED"
)

// finding is what `wakecall check` has to say about one thing.
type finding struct {
	What    string  `json:"what"`
	Verdict verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Advice  string  `json:"advice,omitempty"` // the way out
}

func fine(what, form string, args ...any) finding {
	return finding{What: what, Verdict: good, Detail: fmt.Sprintf(form, args...)}
}

func warn(what, detail, advice string) finding {
	return finding{What: what, Verdict: warning, Detail: detail, Advice: advice}
}

func failed(what, detail, advice string) finding {
	return finding{What: what, Verdict: bad, Detail: detail, Advice: advice}
}

// failedErr is failed without a secret that an error may have picked up.
func failedErr(what string, err error, advice string) finding {
	return failed(what, oneLine(err), advice)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", GroupID: groupCare, Short: "try every connection of the configuration and say what is wrong", Args: noArgs,
		Long: "Tries what `wakecall up` would use: directories, ports, the registry's database and its schema, every Redis with its version,\n" +
			"settings and clock, and where callbacks may go. It changes nothing, and may run beside a Wakecall that is up.\n" +
			"The exit code is 1 when something would not work.",
	}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.load(s)
		if err != nil {
			return err
		}
		findings := check(cmd.Context(), cfg)
		if err := a.show(findings, func(w io.Writer) error { return findingsTable(w, findings) }); err != nil {
			return err
		}
		for _, f := range findings {
			if f.Verdict == bad {
				return failure{}
			}
		}
		return nil
	}
	return a.addOutputFlag(cmd)
}

// check does all checks, in the order in which a start would meet their causes.
func check(ctx context.Context, cfg *conf.Config) []finding {
	source := cfg.File()
	if source == "" {
		source = "no file: defaults, environment and flags"
	}
	findings := []finding{fine("configuration", "%s", source)}
	findings = append(findings, checkDirs(cfg)...)
	findings = append(findings, checkPorts(ctx, cfg)...)
	registryFindings, snapshot := checkRegistry(ctx, cfg)
	findings = append(findings, registryFindings...)
	findings = append(findings, checkShards(ctx, cfg, snapshot)...)
	return append(findings, checkCallbacks(cfg))
}

func findingsTable(w io.Writer, findings []finding) error {
	var rows [][]string
	warnings, failures := 0, 0
	for _, f := range findings {
		detail := f.Detail
		if f.Advice != "" {
			detail += ". " + f.Advice
		}
		rows = append(rows, []string{f.What, string(f.Verdict), detail})
		switch f.Verdict {
		case warning:
			warnings++
		case bad:
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
		return fmt.Sprintf("%s and %s", count(failures, "failure"), count(warnings, "warning"))
	case warnings > 0:
		return fmt.Sprintf("it works, with %s", count(warnings, "warning"))
	}
	return "all good"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
