package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/conf"
)

var write = flag.Bool("write", false, "write docs/reference/commands.md")

// TestTheCommandReferenceIsGenerated from the tree of commands.
func TestTheCommandReferenceIsGenerated(t *testing.T) {
	const page = "../../docs/reference/commands.md"
	want := commandReference((&program{}).root())
	if *write {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s differs from the commands: run `go generate ./cmd/wakecall`", page)
	}
}

const commandsHead = `# Commands

%s

The exit code is 0, 1 after a failure, or 2 for an invalid command line or configuration. A duration
is ` + "`90s`, `1h30m`" + ` or a number of seconds. ` + "`wakecall COMMAND --help`" + ` shows what this page says.

## Common flags

Every command has:

%s
Commands that call the API also have:

%s
With ` + "`-o json`" + `, answers are JSON on standard output, and errors are JSON on standard error, with
` + "`error`, `status`, `field` and `request_id`" + `.
`

// common are the flags that the page describes once: those of all commands that call the API.
var common = (&program{}).addClientFlags(&cobra.Command{}).Flags()

func commandReference(root *cobra.Command) string {
	root.InitDefaultCompletionCmd()
	var b strings.Builder
	fmt.Fprintf(&b, commandsHead, strings.ReplaceAll(plain(root.Long), "\n  wakecall", "\n    wakecall"),
		flagTable(root.PersistentFlags(), all), flagTable(common, all))
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, cmd := range root.Commands() {
			if cmd.GroupID == g.ID && cmd.Name() != "completion" && cmd.Name() != "help" {
				describeCommand(&b, cmd)
			}
		}
	}
	return b.String()
}

func describeCommand(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Hidden {
		return
	}
	below := cmd.Commands()
	text := cmd.Long
	if text == "" {
		text = strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
	}
	fmt.Fprintf(b, "\n### %s\n", cmd.CommandPath())
	if len(below) == 0 {
		fmt.Fprintf(b, "\n    %s\n", strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
	fmt.Fprintf(b, "\n%s\n", plain(text))
	if cmd.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n%s\n", indented(cmd.Example))
	}
	if own := flagTable(cmd.LocalNonPersistentFlags(), isOwn); own != "" {
		b.WriteString("\n" + own)
	}
	for _, c := range below {
		describeCommand(b, c)
	}
}

func all(*pflag.Flag) bool { return true }

// isOwn reports whether a flag is neither common nor a key of the configuration.
func isOwn(f *pflag.Flag) bool {
	isKey := slices.ContainsFunc(conf.Keys(app.GatewayKeys()), func(k conf.Key) bool { return f.Name == k.Flag() })
	shared := common.Lookup(f.Name)
	isCommon := shared != nil && shared.Usage == f.Usage // not the --url of a shard
	return !isKey && !isCommon && f.Name != "help" && !f.Hidden
}

// flagTable lists the flags that are wanted; "" for none.
func flagTable(flags *pflag.FlagSet, wanted func(*pflag.Flag) bool) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if !wanted(f) {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if f.Value.Type() != "bool" {
			name += " " + strings.ToUpper(kind)
		}
		isSet := !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue)
		if isSet && !strings.Contains(usage, "(default") {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, strings.ReplaceAll(plain(usage), "|", `\|`))
	})
	if b.Len() == 0 {
		return ""
	}
	return "| flag | meaning |\n| --- | --- |\n" + b.String()
}

// plain returns a text of the help as Markdown: indented lines are code, and < begins no tag.
func plain(text string) string {
	var b strings.Builder
	before := ""
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			if !strings.HasPrefix(before, "  ") && before != "" {
				b.WriteString("\n")
			}
			b.WriteString("    " + strings.TrimPrefix(line, "  ") + "\n")
		} else {
			if strings.HasPrefix(before, "  ") && line != "" {
				b.WriteString("\n")
			}
			b.WriteString(strings.ReplaceAll(line, "<", "&lt;") + "\n")
		}
		before = line
	}
	return strings.Trim(b.String(), "\n")
}

func indented(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("    "+strings.TrimPrefix(line, "  "), " ")
	}
	return strings.Join(lines, "\n")
}
