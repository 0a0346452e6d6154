package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/log/printable"
)

const (
	completionTime = time.Second // how long the shell waits for a server
	completionMost = 500         // topics that it offers
)

// complete sets the values that the shell completes for a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeBy sets a flag whose values the server knows.
func completeBy(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, by)
}

// completeTopics completes the first argument with the names of topics.
func (p *program) completeTopics(
	cmd *cobra.Command, args []string, prefix string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeMoreTopics(cmd, nil, prefix)
}

// completeMoreTopics completes any argument, and the value of a flag.
func (p *program) completeMoreTopics(
	cmd *cobra.Command, _ []string, prefix string,
) ([]string, cobra.ShellCompDirective) {
	return p.offer(cmd, func(ctx context.Context, c *client.Client) (names []string, err error) {
		topics, err := c.FilteredTopics(ctx, client.TopicFilter{Prefix: prefix, Limit: completionMost})
		for _, t := range topics {
			names = append(names, t.Name)
		}
		return names, err
	})
}

// completeAlerts completes ids of open alerts, and describes them.
func (p *program) completeAlerts(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.offer(cmd, func(ctx context.Context, c *client.Client) (ids []string, err error) {
		alerts, err := c.Alerts(ctx)
		for _, a := range alerts {
			if a.EndedAt == nil {
				ids = append(ids, cobra.CompletionWithDesc(strconv.FormatUint(a.ID, 10), printable.Line(a.Title)))
			}
		}
		return ids, err
	})
}

// offer returns the server's completions, or none if it does not answer soon: an error would disturb the user's typing.
func (p *program) offer(
	cmd *cobra.Command, know func(ctx context.Context, c *client.Client) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	cmd.SetContext(ctx) // client may ask the master for the address
	c, err := p.client(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	list, _ := know(ctx, c)
	return list, cobra.ShellCompDirectiveNoFileComp
}
