package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/conf/address"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/migrations"
)

func (p *program) migrateCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "migrate", GroupID: groupCare, Short: "migrate the registry's schema, or show its state",
		Long: "`wakecall up` also migrates the schema. Use this to migrate beforehand. No other command changes an " +
			"existing schema.",
	},
		p.migration("up", "bring the schema up to date", true),
		p.migration("status", "show the schema's migrations; exit with 1 if one is missing", false),
		p.forgetSecretsCommand())
}

func (p *program) forgetSecretsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forget-secrets",
		Short: "replace the secret key after its loss, and remove what it encrypted",
		Long: "Use this when the key (registry.seal_key or data_dir/secret-key) is lost on every host.\n" +
			"Secrets that the key of this host opens are kept.\n" +
			"Topics lose the signing secrets, URL queries and headers such as Authorization that it cannot open,\n" +
			"and are paused.\n" +
			"Shards whose URL had a password go offline: `wakecall shard put NAME --url URL --state active`.\n" +
			"Enter the SMTP password, webhooks and second factors again in the admin.",
	}
	return p.addOutputFlag(p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		if err := setup.MakeDataDir(cfg); err != nil {
			return err
		}
		lost, err := setup.ForgetSecrets(ctx, cfg)
		if err != nil {
			return setup.ExplainRegistry(cfg, err)
		}
		if lost == (registry.Forgotten{}) {
			return p.say(lost, "nothing was removed: the key of this host opens the secrets of all topics and shards")
		}
		return p.say(lost, "the registry now uses the key of this host; removed the secrets of %s (now paused) "+
			"and the URLs of %s (now offline): enter them again", printable.Count(lost.Topics, "topic"),
			printable.Count(lost.Shards, "shard"))
	}))
}

func (p *program) migration(name, short string, up bool) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short}
	return p.addOutputFlag(p.configured(cmd, func(ctx context.Context, cfg *conf.Config) error {
		db, err := database.Open(cfg.RegistryDSN().Reveal(), nil)
		if err != nil {
			return err
		}
		steps, err := migrated(ctx, db, up)
		if err := errors.Join(err, db.Close()); err != nil {
			return setup.ExplainRegistry(cfg, err)
		}
		if err := p.show(steps, func(w io.Writer) error { return stepsTable(w, cfg, steps) }); err != nil {
			return err
		}
		if slices.ContainsFunc(steps, isMissing) {
			return errors.New("the schema is not up to date: run `wakecall migrate up`")
		}
		return nil
	}))
}

// migrated migrates the schema if up is set, and returns its steps.
func migrated(ctx context.Context, db *database.DB, up bool) ([]migrations.Step, error) {
	if err := db.Ping(ctx); err != nil {
		return nil, fmt.Errorf("registry %s: %w", db, err)
	}
	if up {
		if _, err := db.Migrate(ctx); err != nil {
			return nil, err
		}
	}
	return db.Migrations(ctx)
}

func isMissing(s migrations.Step) bool { return !s.Applied }

func stepsTable(w io.Writer, cfg *conf.Config, steps []migrations.Step) error {
	err := table(w, []string{"STEP", "NAME", "STATE"}, steps, func(s migrations.Step) []string {
		state := "applied"
		if !s.Applied {
			state = "missing"
		}
		return []string{strconv.FormatInt(s.Version, 10), s.Name, state}
	})
	if err != nil || slices.ContainsFunc(steps, isMissing) {
		return err
	}
	_, err = fmt.Fprintf(w, "the schema of %s is up to date\n", address.Mask(cfg.RegistryDSN().Reveal()))
	return err
}
