package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/master"
)

// program is one invocation of wakecall: its input, its outputs, and its global flags.
type program struct {
	in       io.Reader
	out, err io.Writer
	env      []string
	now      func() time.Time
	signals  *signals
	replace  func(args, env []string) error // executes the program again; nil in tests

	configFile string
	url        string
	token      string
	output     format
}

// lasts is called by a command that runs until it is stopped, and must not wait for the reader of its errors.
func (p *program) lasts() {
	if p.err == io.Writer(os.Stderr) {
		log.Own()
		p.err = log.Stderr
	}
}

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// execute runs one command line and returns the exit code.
func (p *program) execute(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	isUsage := errors.As(err, new(*usageError))
	if text := err.Error(); text != "" && p.output == formatJSON {
		_ = writeJSON(p.err, errorViewOf(err))
	} else if text != "" {
		fmt.Fprintf(p.err, "wakecall: %s\n", printable.Lines(text))
		if isUsage {
			fmt.Fprintf(p.err, "`%s --help` shows the usage.\n", cmd.CommandPath())
		}
	}
	if isUsage || errors.As(err, new(*conf.Errors)) {
		return exitUsage
	}
	return exitFailed
}

// errorView is an error in JSON.
type errorView struct {
	Error     string `json:"error"`
	Status    int    `json:"status,omitempty"` // of the API's answer
	Field     string `json:"field,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

func errorViewOf(err error) errorView {
	v := errorView{Error: err.Error()}
	if e, ok := errors.AsType[*client.Error](err); ok {
		v.Status, v.Field, v.RequestID = e.Status, e.Field, e.RequestID
	}
	return v
}

// usageError is the error for an invalid command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usagef(form string, args ...any) error { return &usageError{fmt.Errorf(form, args...)} }

// failure is an error that was already reported: it only sets the exit code.
type failure struct{}

func (failure) Error() string { return "" }

const about = `Wakecall calls back: push a job now, and when it is due Wakecall POSTs it to the endpoint of its topic,
and retries until the endpoint accepts it.

Commands that call the API use --url or WAKECALL_URL, else server.addr of the configuration, else the address of the
installation that runs on data_dir, and the token from --token or WAKECALL_TOKEN, else the one that the first start
wrote to data_dir/api-token, else server.first_token.`

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use: "wakecall", Short: "a delayed-callback dispatcher", Long: about,
		SilenceUsage: true, SilenceErrors: true, Version: version,
	}
	root.SetFlagErrorFunc(badFlag)
	flags := root.PersistentFlags()
	flags.StringVarP(&p.configFile, "config", "c", "",
		"configuration `FILE` (default: $WAKECALL_CONFIG, ./wakecall.yaml, /etc/wakecall/wakecall.yaml)")
	for _, k := range conf.Keys(nil) {
		if k.Path == dataDir {
			addSetting(flags, k)
		}
	}
	p.output = formatTable
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run Wakecall:"},
		&cobra.Group{ID: groupUse, Title: "Use it:"},
		&cobra.Group{ID: groupCare, Title: "Operate it:"},
	)
	root.SetHelpCommandGroupID(groupCare)
	root.SetCompletionCommandGroupID(groupCare)
	group(root, p.commands()...)
	completeHelp(root)
	return root
}

// Groups of commands in the help.
const (
	groupRun  = "run"
	groupUse  = "use"
	groupCare = "care"
)

// group completes a command that only contains subcommands. Called by itself, it shows its help.
func group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.Args = noArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(below...)
	return cmd
}

func (p *program) commands() []*cobra.Command {
	return append(append([]*cobra.Command{p.upCommand(), p.demoCommand(), p.devCommand()}, p.roleCommands()...),
		p.relayCommand(), p.pushCommand(), p.getCommand(), p.deleteCommand(), p.runCommand(), p.resendCommand(),
		p.listCommand(),
		p.searchCommand(), p.changeCommand(), p.groupCommand(), p.mcpCommand(), p.deadCommand(), p.alertCommand(),
		p.topCommand(), p.workCommand(), p.topicCommand(), p.scheduleCommand(), p.taskCommand(), p.statsCommand(),
		p.shardCommand(), p.hostCommand(), p.tokenCommand(), p.psCommand(), p.healthCommand(), p.checkCommand(),
		p.backupCommand(), p.restoreCommand(), p.registryCommand(), p.migrateCommand(), p.recoverCommand(),
		p.importCommand(), p.configCommand(),
		p.versionCommand(), p.manualCommand())
}

// noArgs and exactArgs return usage errors for a wrong number of arguments.
var noArgs = exactArgs()

// exactArgs requires a non-empty argument for each name: a variable in a script may be empty.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s: %s required", cmd.CommandPath(), whichAre(names[len(args):]))
		}
		if len(args) > len(names) {
			return unexpected(cmd, args[len(names)])
		}
		if i := slices.Index(args, ""); i >= 0 {
			return usagef("%s: %s must not be empty", cmd.CommandPath(), names[i])
		}
		return nil
	}
}

func whichAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, " and ") + " are"
}

func unexpected(cmd *cobra.Command, arg string) error {
	if cmd.HasSubCommands() {
		return usagef("%s has no command %q%s", cmd.CommandPath(), arg, suggestion(cmd, arg))
	}
	return usagef("%s: unexpected argument %q", cmd.CommandPath(), arg)
}

// flagError is the API's error about the field that a flag sets.
type flagError struct {
	flag string
	err  *client.Error
}

func (e *flagError) Error() string { return "--" + e.flag + ": " + cmp.Or(e.err.Detail, e.err.Title) }

func (e *flagError) Unwrap() error { return e.err }

// badFlag reports an unknown command rather than its flag: the flags of an unknown command are unknown, too.
func badFlag(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unexpected(cmd, args[0])
	}
	return &usageError{err}
}

func suggestion(cmd *cobra.Command, arg string) string {
	cmd.SuggestionsMinimumDistance = 2
	if s := cmd.SuggestionsFor(arg); len(s) > 0 {
		return "; did you mean " + strings.Join(s, " or ") + "?"
	}
	return ""
}

// refuseZero rejects flags that were explicitly set to their zero value, so that an empty variable in a script is an
// error: otherwise `--id "$ID"` would push a job with a generated id, and `--due "$AT"` one that is due now.
func refuseZero(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		f := flags.Lookup(name)
		if !f.Changed {
			continue
		}
		switch v := f.Value.String(); v {
		case "":
			return usagef("--%s must not be empty; omit the flag for the default", name)
		case "0", "0s":
			return usagef("--%s %s must be above zero; omit the flag for the default", name, v)
		}
	}
	return nil
}

// addClientFlags adds the flags of commands that use the API.
func (p *program) addClientFlags(cmd *cobra.Command) *cobra.Command {
	p.addAPIFlags(cmd)
	return p.addOutputFlag(cmd)
}

func (p *program) addAPIFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.url, "url", "",
		"`URL` of the API (default: $WAKECALL_URL, else of the installation on data_dir)")
	cmd.Flags().StringVar(&p.token, "token", "", "API `TOKEN` (default: $WAKECALL_TOKEN, else data_dir/api-token)")
}

func (p *program) addOutputFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().VarP(&p.output, "output", "o", "table or json")
	complete(cmd, "output", "table", "json")
	return cmd
}

// client returns a client of the API for a command.
func (p *program) client(cmd *cobra.Command) (*client.Client, error) {
	url, token := cmp.Or(p.url, conf.Getenv(p.env, "WAKECALL_URL")),
		cmp.Or(p.token, conf.Getenv(p.env, "WAKECALL_TOKEN"))
	if url == "" || token == "" {
		cfg, err := p.load(cmd)
		if err != nil {
			return nil, err
		}
		if url == "" {
			url = apiURL(cmd.Context(), cfg)
		}
		if token == "" {
			if token, err = setup.ReadToken(cfg); err != nil {
				return nil, err
			}
		}
	}
	c, err := client.New(client.Options{URL: url, Token: token, UserAgent: "wakecall-cli/" + version})
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}

// apiURL returns the URL of the API: as configured, else that of the master that runs on data_dir, which may have been
// started with another environment.
func apiURL(ctx context.Context, cfg *conf.Config) string {
	isDefault := func(s conf.Setting) bool { return s.Key == "server.addr" && s.Source == "default" }
	if slices.ContainsFunc(cfg.Effective(), isDefault) {
		ctx, cancel := context.WithTimeout(ctx, setup.PsLimit)
		defer cancel()
		if url, err := master.At(cfg.DataDir).API(ctx); err == nil && url != "" {
			return url
		}
	}
	return setup.APIURL(cfg)
}

// withClient opens the API client for a command, and explains its errors.
func (p *program) withClient(
	f func(ctx context.Context, c *client.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		// an empty value would fall back to another server or token
		if err := refuseZero(cmd.Flags(), "url", "token"); err != nil {
			return err
		}
		c, err := p.client(cmd)
		if err != nil {
			return err
		}
		defer c.Close()
		return explain(f(cmd.Context(), c, args), c, cmd.Flags())
	}
}

// explain adds advice to an error of the API, and names the flag instead of the API's field.
func explain(err error, c *client.Client, flags *pflag.FlagSet) error {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Field != "" {
		name := cmp.Or(map[string]string{"due_at": "due", "Idempotency-Key": "key"}[e.Field],
			strings.ReplaceAll(e.Field, "_", "-"))
		if flags.Lookup(name) != nil {
			return &flagError{name, e}
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.Is(err, client.ErrUnreachable):
		return fmt.Errorf("%w. Is `wakecall up` running? To use another server than %s, set --url or WAKECALL_URL", err,
			c.URL())
	case errors.Is(err, client.ErrUnauthorized):
		return fmt.Errorf("%w. To use another token than the one in data_dir/api-token, set --token or WAKECALL_TOKEN",
			err)
	}
	return err
}
