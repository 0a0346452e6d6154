package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/assistant"
	"github.com/wakecall/wakecall/client"
)

func (p *program) mcpCommand() *cobra.Command {
	changes := false
	cmd := &cobra.Command{
		Use: "mcp", GroupID: groupUse, Short: "let an AI assistant look at jobs, over the Model Context Protocol",
		Long: `Serves the Model Context Protocol on standard input and output, so that people can ask an AI assistant
"was order-42 called?". The assistant's program starts this command; docs/guides/assistant.md shows its settings.

It calls the API with a token, and can see and do no more than the token. It only reads, unless --allow-changes is
set.`,
		Example: `  wakecall mcp --url https://wakecall.example     # with the token in WAKECALL_TOKEN`,
		Args:    noArgs,
	}
	cmd.Flags().BoolVar(&changes, "allow-changes", false,
		"also offer tools that run, re-drive and delete jobs, cancel groups, pause topics, pause and run schedules "+
			"and acknowledge alerts (default: read only)")
	cmd.RunE = p.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		p.lasts()
		return assistant.Serve(ctx, p.in, p.out, assistant.Options{
			API: c, Version: version, AllowChanges: changes, Now: p.now,
			Log: slog.New(slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
	})
	p.addAPIFlags(cmd)
	return cmd
}
