package setup

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/account"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/signin"
)

// SignIn returns the identity provider of admin.oidc, nil if none is configured. It does not contact it.
func SignIn(cfg *conf.Config) (*signin.Provider, error) {
	o := cfg.Admin.OIDC
	if o.Issuer == "" {
		return nil, nil
	}
	return signin.New(signin.Options{
		Name: o.Name, Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret.Reveal(), Scopes: o.Scopes,
		UsernameClaim: o.UsernameClaim, GroupsClaim: o.GroupsClaim, CAFile: o.CAFile,
		Roles: map[account.Role][]string{
			account.RoleAdmin: o.Roles.Admin, account.RoleOperator: o.Roles.Operator,
			account.RoleViewer: o.Roles.Viewer,
		},
		RedirectURL: redirectURL(cfg), Now: time.Now,
	})
}

func redirectURL(cfg *conf.Config) string {
	return cmp.Or(cfg.Admin.OIDC.RedirectURL, strings.TrimRight(PublicAdminURL(cfg), "/")+signin.CallbackPath)
}

// checkSignIn reports whether the identity provider answers.
func checkSignIn(ctx context.Context, cfg *conf.Config) []Finding {
	const what = "admin.oidc"
	provider, err := SignIn(cfg)
	if err != nil {
		return []Finding{failedErr(what, err, "Name a PEM file that this user can read, or remove the key")}
	}
	if provider == nil {
		return nil
	}
	defer provider.Close()
	if err := provider.Discover(ctx); err != nil {
		const most = 300 // characters: it may contain an answer of the provider
		return []Finding{warn(what, printable.Clip(printable.Error(err), most), "Check admin.oidc.issuer and, for a "+
			"certificate of your own, admin.oidc.ca_file. Users of the web admin can still sign in")}
	}
	return []Finding{fine(what, "%s answers; register %s there", cfg.Admin.OIDC.Issuer, redirectURL(cfg))}
}
