package account

import (
	"strings"
	"testing"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/dbtest"
)

func TestUsersOfAProvider(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		ctx := t.Context()
		r := open(t, registry.Options{DSN: dsn})
		signIn := func(subject, name string, role Role) *User {
			t.Helper()
			u, err := r.SignInByProvider(ctx, ProviderUser{
				Issuer: "https://sso.example.com", Subject: subject, Name: name, Role: role, RoleGroup: "staff",
				Address: "10.0.0.1",
			})
			if err != nil {
				t.Fatal(err)
			}
			return u
		}
		long := strings.Repeat("界", 200)
		for _, c := range []struct {
			subject, name string
			role          Role
			want          string
		}{
			{"1", "anna", RoleViewer, "oidc:anna"},
			{"1", "anna", RoleViewer, "oidc:anna"},
			{"1", "anna married", RoleAdmin, "oidc:anna"},
			{"2", " anna ", RoleViewer, "oidc:anna~"},
			{"2", "anna", RoleViewer, "oidc:anna~"},
			{"A", "a\nb", RoleViewer, "oidc:a b"},
			{"a", "a b", RoleViewer, "oidc:a b~"}, // subjects are case-sensitive
			{"3", long, RoleViewer, "oidc:" + long[:64*len("界")]},
		} {
			u := signIn(c.subject, c.name, c.role)
			right := u.Name == c.want || strings.HasSuffix(c.want, "~") && strings.HasPrefix(u.Name, c.want)
			if !right || u.Role != c.role || !u.ByProvider() {
				t.Errorf("%s %.20q is %+v, want %s", c.subject, c.name, u, c.want)
			}
		}
		users, err := r.ListProviderUsers(ctx, "https://sso.example.com")
		if err != nil || len(users) != 5 {
			t.Errorf("there are %d users, %v", len(users), err)
		}
		if others, err := r.ListProviderUsers(ctx, "https://other.example.com"); err != nil || len(others) != 0 {
			t.Errorf("another provider has %+v, %v", others, err)
		}
		trail, err := r.Audit(ctx, registry.AuditFilter{Object: "user/oidc:anna"})
		if err != nil || len(trail) != 2 || trail[0].Action != "set role" || trail[0].Actor != "user/oidc:anna" {
			t.Errorf("the audit trail has %+v, %v", trail, err)
		}
	})
}
