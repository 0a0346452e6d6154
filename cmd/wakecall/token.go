package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/describe"
	"github.com/wakecall/wakecall/internal/registry"
)

func (p *program) tokenCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "token", GroupID: groupCare, Short: "list, create and revoke API tokens",
		Long: "The commands read and change the registry's database directly, so they work without a token and while " +
			"no\n" +
			"server runs. Servers follow within a second.",
	}, p.tokenListCommand(), p.tokenCreateCommand(), p.tokenUpdateCommand(), p.tokenRevokeCommand())
}

func (p *program) tokenListCommand() *cobra.Command {
	return p.addOutputFlag(&cobra.Command{
		Use: "list", Short: "show the tokens, when they expire and when they were last used", Args: noArgs,
		RunE: p.onRegistry(func(ctx context.Context, _ *conf.Config, r *registry.Registry, _ []string) error {
			uses, err := r.TokenUses(ctx)
			if err != nil {
				return err
			}
			views := []registry.ShownToken{}
			for _, t := range r.ListTokens() {
				views = append(views, t.Shown(uses[t.ID]))
			}
			return p.show(views, func(w io.Writer) error { return p.tokenTable(w, views) })
		}),
	})
}

func (p *program) tokenTable(w io.Writer, views []registry.ShownToken) error {
	titles := []string{"ID", "NAME", "RIGHTS", "TOPICS", "EXPIRES", "LAST USED", "QUOTAS"}
	return table(w, titles, views, func(v registry.ShownToken) []string {
		expires, used := "never", "never"
		if v.ExpiresAt != nil {
			expires = describe.Instant(*v.ExpiresAt, p.now())
		}
		if v.LastUsedAt != nil { // it is stored to the minute
			used = v.LastUsedAt.UTC().Format("2006-01-02T15:04Z")
		}
		return []string{
			strconv.FormatUint(v.ID, 10), v.Name, rightsText(v.Rights), strings.Join(v.Topics, ","), expires, used,
			quotasText(v.Quotas),
		}
	})
}

// quotasText returns what quotas limit: 100 pushes/s, 5000 waiting jobs.
func quotasText(q *registry.Quotas) string {
	var parts []string
	if q != nil && q.PushesPerSecond > 0 {
		parts = append(parts, strconv.FormatInt(q.PushesPerSecond, 10)+" pushes/s")
	}
	if q != nil && q.WaitingJobs > 0 {
		parts = append(parts, strconv.FormatInt(q.WaitingJobs, 10)+" waiting jobs")
	}
	return strings.Join(parts, ", ")
}

// addQuotaFlags adds the flags of a token's quotas.
func addQuotaFlags(flags *pflag.FlagSet, q *registry.Quotas) {
	flags.Int64Var(&q.PushesPerSecond, "pushes-per-second", 0,
		"jobs that it may push a second, with the tokens that it makes (default 0: no limit)")
	flags.Int64Var(&q.WaitingJobs, "waiting-jobs", 0,
		"delayed, ready and running jobs that it may have, with those of the tokens that it makes (default 0: no limit)")
}

func (p *program) tokenUpdateCommand() *cobra.Command {
	var q registry.Quotas
	cmd := &cobra.Command{
		Use: "update ID", Short: "set the quotas of a token; what is not given is not limited", Args: exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 63)
			if err != nil {
				return usagef("%q is not the id of a token; wakecall token list shows them", args[0])
			}
			return p.withRegistry(cmd, func(_ *conf.Config, r *registry.Registry) error {
				err := r.SetQuotas(cmd.Context(), actor(), id, &q)
				if errors.As(err, new(*registry.FieldError)) {
					return &usageError{err}
				}
				if err != nil {
					return fmt.Errorf("token %w; wakecall token list shows them", err)
				}
				return p.say(map[string]any{"id": id, "quotas": q}, "changed the quotas of token %d", id)
			})
		},
	}
	addQuotaFlags(cmd.Flags(), &q)
	return p.addOutputFlag(cmd)
}

func rightsText(rights []registry.Right) string { return strings.Join(rightNames(rights), ",") }

func rightNames(rights []registry.Right) (names []string) {
	for _, r := range rights {
		names = append(names, string(r))
	}
	return names
}

func (p *program) tokenCreateCommand() *cobra.Command {
	var rights, topics []string
	var quotas registry.Quotas
	expires := ""
	cmd := &cobra.Command{
		Use: "create NAME", Short: "create a token, and show it once", Args: exactArgs("NAME"),
		Example: "  wakecall token create shop --rights push,read --topics 'shop.*' --expires 90d",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseZero(cmd.Flags(), "expires"); err != nil { // it would never expire
				return err
			}
			until, err := registry.ParseExpiry(expires, p.now())
			if err != nil {
				return &usageError{err}
			}
			return p.withRegistry(cmd, func(_ *conf.Config, r *registry.Registry) error {
				secret, t, err := r.CreateToken(
					cmd.Context(), actor(), args[0], registry.RightsOf(rights), topics, until,
					func(t *registry.Token) { t.Quotas = &quotas })
				if errors.As(err, new(*registry.FieldError)) {
					return &usageError{err}
				}
				if err != nil {
					return err
				}
				v := t.Shown(time.Time{})
				v.Secret = secret
				return p.show(v, func(w io.Writer) error { return p.showNewToken(w, v) })
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&rights, "rights", nil,
		"`RIGHTS`, joined with commas: push, read, manage, consume, schedule, tokens")
	flags.StringSliceVar(&topics, "topics", nil,
		"topic `PATTERNS`, joined with commas, such as shop.*,order.close; * matches every topic")
	flags.StringVar(&expires, "expires", "",
		"when it expires: a duration (90d, 12h) or an RFC 3339 time (default: never)")
	addQuotaFlags(flags, &quotas)
	complete(cmd, "rights", rightNames(registry.Rights)...)
	return p.addOutputFlag(cmd)
}

func (p *program) showNewToken(w io.Writer, v registry.ShownToken) error {
	fmt.Fprintln(p.err, "The token is not shown again.")
	return fields(w, "id", strconv.FormatUint(v.ID, 10), "name", v.Name, "rights", rightsText(v.Rights),
		"topics", strings.Join(v.Topics, ","), "expires", describe.InstantOf(v.ExpiresAt, p.now()),
		"quotas", quotasText(v.Quotas), "token", v.Secret)
}

func (p *program) tokenRevokeCommand() *cobra.Command {
	return p.addOutputFlag(&cobra.Command{
		Use: "revoke ID", Aliases: []string{"delete"}, Short: "revoke a token", Args: exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 63)
			if err != nil {
				return usagef("%q is not the id of a token; wakecall token list shows them", args[0])
			}
			return p.withRegistry(cmd, func(_ *conf.Config, r *registry.Registry) error {
				if err := r.RevokeToken(cmd.Context(), actor(), id); err != nil {
					return fmt.Errorf("token %w; wakecall token list shows them", err)
				}
				return p.say(map[string]any{"id": id, "revoked": true}, "revoked token %d", id)
			})
		},
	})
}
