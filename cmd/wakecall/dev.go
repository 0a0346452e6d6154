package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/app"
	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log"
	"github.com/wakecall/wakecall/master"
)

const aboutDev = `Starts an installation for tests in a temporary directory. Its clock stands until a request moves it:
POST /v1/dev/advance {"by":"720h"} calls everything that falls due in between, one job after another, and answers
with the calls. It reads no configuration and no WAKECALL_ variables, and leaves nothing behind.`

func (p *program) devCommand() *cobra.Command {
	addr, token := "", ""
	cmd := &cobra.Command{
		Use: "dev", GroupID: groupRun, Short: "start an installation for tests, with a clock that they move",
		Long: aboutDev, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.dev(cmd.Context(), addr, token) },
	}
	cmd.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "address of the API; port 0: a free one")
	cmd.Flags().StringVar(&token, "token", "", "the API token; without it, a random one")
	return cmd
}

// dev runs a master in a temporary directory until ctx is done.
func (p *program) dev(ctx context.Context, addr, token string) error {
	p.lasts()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return usagef("--addr %s: %w", addr, err)
	}
	defer l.Close()
	dir, err := os.MkdirTemp("", "wakecall-dev-")
	if err != nil {
		return fmt.Errorf("create a temporary directory: %w", err)
	}
	defer os.RemoveAll(dir)
	cfg, err := devConfig(dir, l.Addr().String())
	if err != nil {
		return err
	}
	if token == "" {
		token = "dev-" + strings.ToLower(rand.Text())
	}
	cfg.Server.FirstToken = conf.Secret(token)
	log := log.New(cfg, p.err, "master")
	shards, err := setup.Prepare(ctx, cfg, log)
	if err != nil {
		return err
	}
	opts, err := app.DevOptions(cfg, version, shards)
	if err != nil {
		return err
	}
	opts.Logger, opts.Kill, opts.Passed = log, p.signals.kill, []net.Listener{l}
	opts.Ready = func() { fmt.Fprintf(p.out, "WAKECALL_URL=%s\nWAKECALL_TOKEN=%s\n", setup.APIURL(cfg), token) }
	p.signals.supervise()
	return master.Run(ctx, nil, opts)
}

// devConfig returns the configuration of an installation for tests.
func devConfig(dir, addr string) (*conf.Config, error) {
	return conf.Load(conf.LoadOptions{Search: []string{}, Gateways: app.GatewayKeys(), Flags: map[string]string{
		"data_dir": dir, "server.addr": addr, "metrics.addr": "127.0.0.1:0", "log.level": "warn",
		"shutdown_timeout": "5s",
	}})
}
