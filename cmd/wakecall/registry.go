package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry/database"
)

func (p *program) registryCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "registry", GroupID: groupCare, Short: "copy the registry to another database",
	}, p.registryCopyCommand())
}

func (p *program) registryCopyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "copy", Short: "copy the registry to an empty database", Args: noArgs,
		Long: "Copies topics, shards, tokens, users, schedules, settings, alerts, charts and the audit trail.\n" +
			"Both databases may be SQLite, MySQL, MariaDB or PostgreSQL. The target needs the schema of\n" +
			"`wakecall migrate up --registry-dsn DSN`, and must be empty. It gets everything, or nothing.\n" +
			"Secrets stay encrypted with the same key. Stop Wakecall first: later changes are not copied.\n" +
			"Other users see a command line: @FILE reads a DSN with a password from a file.",
	}
	var from, to string
	var dryRun bool
	cmd.Flags().StringVar(&from, "from", "", "`DSN` of the source, or @FILE with it (default: registry.dsn)")
	cmd.Flags().StringVar(&to, "to", "", "`DSN` of the target, or @FILE with it")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check both, and count the rows")
	return p.addOutputFlag(p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		if to == "" {
			return usagef("--to is required: the DSN of the target")
		}
		source, err := openForCopy("--from", cmp.Or(from, cfg.RegistryDSN().Reveal()))
		if err != nil {
			return err
		}
		defer source.Close()
		target, err := openForCopy("--to", to)
		if err != nil {
			return err
		}
		defer target.Close()
		tables, err := database.Copy(ctx, database.CopyOptions{From: source, To: target, DryRun: dryRun})
		if err != nil {
			return setup.ExplainRegistry(cfg, err)
		}
		return p.show(tables, func(w io.Writer) error { return copiedTable(w, tables, target, dryRun) })
	}))
}

// openForCopy opens a database that exists. SQLite would create a missing file.
func openForCopy(flag, dsn string) (*database.DB, error) {
	if file, ok := strings.CutPrefix(dsn, "@"); ok {
		var err error
		if dsn, err = readSecret(flag, file); err != nil {
			return nil, err
		}
	}
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s: no file %s; `wakecall migrate up --registry-dsn sqlite:PATH` creates one", flag,
				path)
		}
	}
	db, err := database.Open(dsn, nil)
	if err != nil {
		return nil, &usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	return db, nil
}

func copiedTable(w io.Writer, tables []database.TableCopy, target *database.DB, dryRun bool) error {
	rows := int64(0)
	err := table(w, []string{"TABLE", "ROWS"}, tables, func(t database.TableCopy) []string {
		rows += t.Rows
		return []string{t.Table, strconv.FormatInt(t.Rows, 10)}
	})
	if err != nil {
		return err
	}
	done := "copied"
	if dryRun {
		done = "would copy"
	}
	_, err = fmt.Fprintf(w, "%s %s of %s to %s\n", done, printable.Count(int(rows), "row"),
		printable.Count(len(tables), "table"), target)
	return err
}
