package test

import (
	"testing"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/oidctest"
)

// TestAnIdentityProviderSignsInAndOut: a person without a group is refused, one with a group comes in, and logging out
// ends the session at the provider, too.
func TestAnIdentityProviderSignsInAndOut(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	p := oidctest.Start(t)
	p.Ask()
	i := start(t, harness.Options{Env: map[string]string{
		"WAKECALL_ADMIN_OIDC_ISSUER": p.URL, "WAKECALL_ADMIN_OIDC_CLIENT_ID": oidctest.ClientID,
		"WAKECALL_ADMIN_OIDC_CLIENT_SECRET": oidctest.ClientSecret, "WAKECALL_ADMIN_OIDC_NAME": "Example SSO",
		"WAKECALL_ADMIN_OIDC_ROLES_OPERATOR": "on call", "WAKECALL_ADMIN_BASE_PATH": "/wakecall",
	}})
	i.WaitRole("admin", 1)
	b := harness.StartBrowser(t, i.AdminURL())
	const button = `a[href^="/wakecall/login/oidc"]`

	p.SignIn(map[string]any{"sub": "1", "preferred_username": "carol", "groups": []string{"staff"}})
	b.Open("/wakecall/login")
	b.Shows(soon, "Sign in with Example SSO", "User name")
	shots(b, "sign-in")
	b.Expect("403")
	b.Expect("favicon") // the provider has none
	b.Submit(button)
	b.Submit("#enter")
	b.Shows(soon, "No access", "on call", "staff")
	shots(b, "no-access")

	p.SignIn(map[string]any{"sub": "2", "preferred_username": "alice", "groups": []string{"on call"}})
	b.Open("/wakecall/topics")
	b.Submit(button)
	b.Submit("#enter")
	b.Shows(soon, "Topics")
	b.Open("/wakecall/account")
	b.Shows(soon, "oidc:alice · operator", "An identity provider signs you in")

	b.Click(`button[title="oidc:alice"]`)
	b.Submit(`form[action$="/logout"] button`)
	b.Shows(soon, "Signed out of the provider")
	b.Submit("#back")
	b.Shows(soon, "Sign in with Example SSO")
	b.Open("/wakecall/account")
	b.Shows(soon, "Sign in with Example SSO")
}
