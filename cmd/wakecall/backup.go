package main

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log"
)

func (p *program) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup DIR", GroupID: groupCare, Short: "back up jobs, journal and registry while Wakecall works",
		Long: "Writes the jobs of all shards, this host's journal and the registry to DIR, which must be empty or\n" +
			"not exist. Run it on a host with access to all shards, as the user of Wakecall. With several hosts,\n" +
			"copy the journals of the others, too. Secrets stay encrypted with the secret key, which is not in the\n" +
			"backup: keep a copy of data_dir/secret-key and data_dir/api-token elsewhere.",
	}
	var dir string
	p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		m, err := app.Backup(ctx, cfg, version, log.New(cfg, p.err, "backup"), dir)
		if err != nil {
			return err
		}
		return p.show(m, func(w io.Writer) error { return backupTable(w, &m) })
	})
	return p.addOutputFlag(onDir(cmd, &dir))
}

func (p *program) restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore DIR", GroupID: groupCare, Short: "restore a backup into an empty registry and empty shards",
		Long: "Restores what `wakecall backup` wrote to DIR. Wakecall must not run, nor the installation that was\n" +
			"backed up. The registry and the shards must be empty; copy data_dir/secret-key here first. A journal\n" +
			"of the same host in data_dir is kept: what happened after the backup is known from it. The jobs come\n" +
			"to the shards when `wakecall up` compares them with the journal. After an interruption, run it again.\n" +
			"If it then says that the registry must be empty, it was complete.",
	}
	o := app.RestoreOptions{}
	shards := cmd.Flags().StringArray("shard", nil, "`NAME=URL` of a shard that is another Redis now; may be repeated")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "check everything, and restore nothing")
	p.configured(cmd, func(ctx context.Context, cfg *conf.Config) (err error) {
		if o.URLs, err = shardURLs(*shards); err != nil {
			return err
		}
		o.Logger = log.New(cfg, p.err, "restore")
		m, err := app.Restore(ctx, cfg, o)
		if err != nil {
			return err
		}
		return p.show(m, func(w io.Writer) error { return backupTable(w, &m) })
	})
	return p.addOutputFlag(onDir(cmd, &o.Dir))
}

// onDir gives a command that needs the configuration an argument.
func onDir(cmd *cobra.Command, dir *string) *cobra.Command {
	run := cmd.RunE
	cmd.Args = exactArgs("DIR")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		*dir = args[0]
		return run(cmd, args)
	}
	return cmd
}

func shardURLs(list []string) (map[string]string, error) {
	urls := map[string]string{}
	for _, one := range list {
		name, url, ok := strings.Cut(one, "=")
		if !ok || name == "" || url == "" {
			return nil, usagef("--shard must be NAME=URL")
		}
		urls[name] = url
	}
	return urls, nil
}

func backupTable(w io.Writer, m *app.Manifest) error {
	n := m.Jobs()
	rows := int64(0)
	for _, t := range m.Tables {
		rows += t.Rows
	}
	names := make([]string, 0, len(m.Shards))
	for name := range m.Shards {
		names = append(names, name)
	}
	slices.Sort(names)
	pairs := []string{
		"instant", m.Instant.UTC().Format(describe.TimeLayout), "host", m.Host, "shards", strings.Join(names, ", "),
		"jobs", strconv.Itoa(n.Jobs), "  dead", strconv.Itoa(n.Dead), "schedules", strconv.Itoa(n.Schedules),
		"closed groups", strconv.Itoa(n.Closed), "rows of the registry", strconv.FormatInt(rows, 10),
	}
	if n.Damaged > 0 {
		pairs = append(pairs, "damaged, left out", strconv.Itoa(n.Damaged))
	}
	return fields(w, pairs...)
}
