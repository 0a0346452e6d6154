package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manualCommand writes the man pages that packages contain. Cobra's own generator loses the layout of the help texts
// and would add two modules to the binary.
func (p *program) manualCommand() *cobra.Command {
	return &cobra.Command{
		Use: "manual DIR", Hidden: true, Short: "write the man pages of all commands", Args: exactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error { return writePages(cmd.Root(), args[0]) },
	}
}

// writePages writes the page of a command and of all below it.
func writePages(cmd *cobra.Command, dir string) error {
	if !cmd.IsAvailableCommand() && cmd.HasParent() {
		return nil
	}
	if cmd.Name() != "config" {
		hideSettings(cmd)
	}
	if err := os.WriteFile(filepath.Join(dir, pageName(cmd)+".1"), manualPage(cmd), 0o644); err != nil {
		return err
	}
	for _, below := range cmd.Commands() {
		if err := writePages(below, dir); err != nil {
			return err
		}
	}
	return nil
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func manualPage(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	name := pageName(cmd)
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"Wakecall\"\n", strings.ToUpper(name), "wakecall "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	writeText(&b, cmp.Or(cmd.Long, sentence(cmd.Short)))
	if cmd.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
	}
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(pageName(below)), roff(below.Short))
		}
	}
	writeFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	writeFlags(&b, "GLOBAL OPTIONS", cmd.InheritedFlags())
	if cmd.HasExample() {
		b.WriteString(".SH EXAMPLES\n")
		writeText(&b, cmd.Example)
	}
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(pageName(cmd.Parent())))
	}
	return b.Bytes()
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }

// writeText writes paragraphs. Indented lines keep their layout.
func writeText(b *bytes.Buffer, text string) {
	isVerbatim := false
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		if indented := strings.HasPrefix(line, "  "); indented != isVerbatim {
			isVerbatim = indented
			b.WriteString(map[bool]string{true: ".RS\n.nf\n", false: ".fi\n.RE\n"}[indented])
		}
		b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
	}
	if isVerbatim {
		b.WriteString(".fi\n.RE\n")
	}
}

func writeFlags(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		short := ""
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + ", "
		}
		fmt.Fprintf(b, ".TP\n.BI \"%s \" %q\n%s\n", roff(short+"--"+f.Name), roff(value), roff(usage))
	})
}

// roff escapes text.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}
