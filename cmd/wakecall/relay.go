package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/relay"
	"github.com/wakecall/wakecall/relay/ddl"
)

// relayFlags are the flags of `wakecall relay`.
type relayFlags struct {
	relay.Options
	dsn, table, tokenFile, poison, metrics string
}

// relayDSN is the variable with the DSN; with _FILE at its end, it names a file.
const relayDSN = "WAKECALL_RELAY_DSN"

const relayLong = `Carries the rows of an outbox table to Wakecall: services insert pushes, changes and cancels in the
transactions of their own data. Several relays share the work. The DSN is --dsn, or better WAKECALL_RELAY_DSN, or the
contents of the file WAKECALL_RELAY_DSN_FILE: command lines are visible to every user of the host for a moment.

Rows that the API refuses --attempts times are set aside, and shown by wakecall relay list. The first SIGTERM or SIGINT
finishes the calls that run and gives the other rows back.`

func (p *program) relayCommand() *cobra.Command {
	f := relayFlags{}
	cmd := &cobra.Command{
		Use: "relay", GroupID: groupRun, Short: "carry an outbox table into the queue", Long: relayLong, Args: noArgs,
		Example: `  WAKECALL_RELAY_DSN_FILE=/run/secrets/dsn wakecall relay --token-file /run/secrets/token
  wakecall relay --dsn sqlite:///var/lib/shop/shop.db --topics 'shop.*' --metrics 127.0.0.1:9790`,
	}
	addOutboxFlags(cmd, &f)
	flags := cmd.Flags()
	flags.StringVar(&p.url, "server", "",
		"`URL` of the API (default: $WAKECALL_URL, else of the installation on data_dir)")
	flags.StringVar(&f.tokenFile, "token-file", "",
		"`FILE` with the API token (default: $WAKECALL_TOKEN, else data_dir/api-token)")
	flags.StringSliceVar(&f.Topics, "topics", nil,
		"`PATTERNS` of topics, as 'shop.*': rows of others are set aside; required with the token of "+
			"data_dir/api-token")
	flags.StringVar(&f.poison, "poison", "wait",
		"`what` later rows of a key do while one is set aside: wait, or skip it")
	flags.IntVar(&f.Attempts, "attempts", 5, "refusals until a row is set aside")
	flags.StringVar(&f.metrics, "metrics", "", "`ADDR` that serves /metrics and /healthz (default: none)")
	flags.StringVar(&f.Name, "name", "", "`NAME` under which it reports to Wakecall (default: DATABASE.TABLE)")
	complete(cmd, "poison", "wait", "skip")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.relay(cmd, f) }
	cmd.AddCommand(p.relayDDLCommand(), p.relayListCommand(),
		p.relaySeqCommand("retry", "carry a row that was set aside again", "waits again", (*relay.Table).Retry),
		p.relaySeqCommand("drop", "delete a row that was set aside", "dropped", (*relay.Table).Drop))
	return cmd
}

func addOutboxFlags(cmd *cobra.Command, f *relayFlags) {
	cmd.Flags().StringVar(&f.dsn, "dsn", "",
		"`DSN` of the database: mysql://…, postgres://… or sqlite://FILE (default: $WAKECALL_RELAY_DSN)")
	addTableFlag(cmd, f)
}

func addTableFlag(cmd *cobra.Command, f *relayFlags) {
	cmd.Flags().StringVar(&f.table, "table", ddl.Table, "`TABLE` or SCHEMA.TABLE of the outbox")
}

// openOutbox opens the table of a command. A DSN on the command line is moved to the environment, which other users of
// the host cannot read, by executing the program again.
func (p *program) openOutbox(f relayFlags) (*relay.Table, error) {
	env, file := conf.Getenv(p.env, relayDSN), conf.Getenv(p.env, relayDSN+"_FILE")
	switch {
	case f.dsn != "" && p.replace != nil:
		others := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, relayDSN) })
		return nil, p.replace(withoutFlag(os.Args, "--dsn"), append(others, relayDSN+"="+f.dsn))
	case f.dsn == "" && env != "" && file != "":
		return nil, usagef("%s and %[1]s_FILE are both set; set one of them", relayDSN)
	case f.dsn == "" && file != "":
		var err error
		if env, err = readSecret(relayDSN+"_FILE", file); err != nil {
			return nil, err
		}
	}
	dsn := cmp.Or(f.dsn, env)
	if dsn == "" {
		return nil, usagef("no database: set %s to its DSN, or --dsn", relayDSN)
	}
	t, err := relay.Open(dsn, f.table)
	if err != nil {
		return nil, &usageError{err}
	}
	return t, nil
}

func readSecret(setting, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", setting, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// withoutFlag removes a flag and its value from a command line.
func withoutFlag(args []string, flag string) (list []string) {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == flag:
			i++
		case !strings.HasPrefix(args[i], flag+"="):
			list = append(list, args[i])
		}
	}
	return list
}

func (p *program) relay(cmd *cobra.Command, f relayFlags) (err error) {
	flags := cmd.Flags()
	if err := refuseZero(flags, "dsn", "table", "server", "token-file", "attempts", "metrics", "name"); err != nil {
		return err
	}
	switch {
	case f.poison != "wait" && f.poison != "skip":
		return usagef("--poison %q must be wait or skip", f.poison)
	case f.Attempts < 0:
		return usagef("--attempts %d must be at least 1", f.Attempts)
	}
	t, err := p.openOutbox(f)
	if err != nil {
		return err
	}
	defer func() { _ = t.Close() }()
	if f.tokenFile != "" {
		if p.token, err = readSecret("--token-file", f.tokenFile); err != nil {
			return err
		}
	}
	cfg, err := p.load(cmd)
	if err != nil {
		return err
	}
	if err := p.checkRelayTopics(cfg, f); err != nil {
		return err
	}
	c, err := p.client(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	p.signals.outliveLog()
	p.lasts()
	f.Table, f.Client, f.SkipSetAside, f.Log = t, c, f.poison == "skip", log.New(cfg, p.err, "relay")
	r := relay.New(f.Options)
	if f.metrics != "" {
		l, err := net.Listen("tcp", f.metrics)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		defer app.ServeMetrics(l, r.Metrics(), r.Problem, f.Log)()
	}
	f.Log.Info("started", "version", version, "outbox", t.String(), "server", c.URL())
	err = r.Run(cmd.Context())
	f.Log.Info("stopped")
	return err
}

// checkRelayTopics requires topics with the token that has all rights on them.
func (p *program) checkRelayTopics(cfg *conf.Config, f relayFlags) error {
	if len(f.Topics) > 0 {
		pretend := registry.Token{Name: "relay", Rights: []registry.Right{registry.RightPush}, Topics: f.Topics}
		if err := pretend.Validate(); err != nil {
			return usagef("--topics %s: %w", strings.Join(f.Topics, ","), err)
		}
		return nil
	}
	own, err := setup.ReadToken(cfg)
	token := cmp.Or(p.token, conf.Getenv(p.env, "WAKECALL_TOKEN"), own)
	if err == nil && token == own {
		return usagef("--topics is required with the token of %s, which has all rights: whoever can insert a row "+
			"could touch every topic. Set --topics 'shop.*', or '*' for all; or create a token with `wakecall token "+
			"create relay --rights push --topics 'shop.*'` and set --token-file", setup.TokenFile(cfg))
	}
	return nil
}

func (p *program) relayDDLCommand() *cobra.Command {
	f := relayFlags{}
	cmd := &cobra.Command{
		Use: "ddl mysql|postgres|sqlite", Short: "print the statements that create the outbox table",
		Args: exactArgs("DATABASE"), ValidArgs: ddl.Databases,
		Example: "  wakecall relay ddl postgres | psql shop",
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := ddl.Of(args[0], f.table)
			if err != nil {
				return &usageError{err}
			}
			_, err = io.WriteString(p.out, text)
			return err
		},
	}
	addTableFlag(cmd, &f)
	return cmd
}

// onOutbox runs a command on the table.
func (p *program) onOutbox(cmd *cobra.Command, run func(context.Context, *relay.Table, []string) error) *cobra.Command {
	f := relayFlags{}
	addOutboxFlags(cmd, &f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := refuseZero(cmd.Flags(), "dsn", "table"); err != nil {
			return err
		}
		t, err := p.openOutbox(f)
		if err != nil {
			return err
		}
		return errors.Join(run(cmd.Context(), t, args), t.Close())
	}
	return p.addOutputFlag(cmd)
}

func (p *program) relayListCommand() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "list", Short: "show the rows that were set aside", Args: noArgs,
		Long: "Shows the rows that were set aside, the oldest first. The exit code is 1 if there are any.",
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "maximum number of rows")
	return p.onOutbox(cmd, func(ctx context.Context, t *relay.Table, _ []string) error {
		if limit < 1 {
			return usagef("--limit %d must be above zero", limit)
		}
		rows, err := t.SetAside(ctx, limit)
		if err != nil {
			return err
		}
		err = p.show(rows, func(w io.Writer) error { return p.outboxTable(w, rows) })
		if err != nil || len(rows) == 0 {
			return err
		}
		return failure{}
	})
}

func (p *program) outboxTable(w io.Writer, rows []relay.Row) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "no rows are set aside")
		return err
	}
	titles := []string{"SEQ", "OP", "TOPIC", "ID", "GROUP", "CREATED", "ATTEMPTS", "ERROR"}
	return table(w, titles, rows, func(r relay.Row) []string {
		return []string{
			strconv.FormatInt(r.Seq, 10), r.Op, r.Topic, r.JobID, r.Group,
			describe.Instant(time.UnixMilli(r.CreatedAt), p.now()), strconv.Itoa(r.Attempts),
			printable.Clip(r.LastError, 2*clipAt),
		}
	})
}

func (p *program) relaySeqCommand(
	verb, short, done string, act func(*relay.Table, context.Context, int64) error,
) *cobra.Command {
	cmd := &cobra.Command{Use: verb + " SEQ", Short: short, Args: exactArgs("SEQ")}
	return p.onOutbox(cmd, func(ctx context.Context, t *relay.Table, args []string) error {
		seq, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return usagef("SEQ %q must be a number", args[0])
		}
		if err := act(t, ctx, seq); err != nil {
			return err
		}
		return p.say(map[string]int64{verb: seq}, "row %d %s", seq, done)
	})
}
