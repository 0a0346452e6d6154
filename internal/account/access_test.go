package account

import (
	"errors"
	"testing"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/dbtest"
)

func TestADisabledUserIsKeptOut(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, registry.Options{DSN: dsn})
		ctx := t.Context()
		for name, role := range map[string]Role{"anna": RoleAdmin, "otto": RoleOperator} {
			if err := r.CreateUser(ctx, "test", name, "long enough", role); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.NoteSignIn(ctx, "otto", "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		if err := r.SetDisabled(ctx, "test", "otto", true); err != nil {
			t.Fatal(err)
		}
		if _, err := r.CheckPassword(ctx, "otto", "long enough"); !errors.Is(err, ErrNoUser) {
			t.Errorf("a disabled user signed in: %v", err)
		}
		list, err := r.ListUsers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range list {
			if u.Name == "otto" && (!u.Disabled || u.Address != "192.0.2.1" || u.SignedInAt.IsZero()) {
				t.Errorf("otto is %+v", u)
			}
			if u.Name == "anna" && (u.Disabled || !u.SignedInAt.IsZero()) {
				t.Errorf("anna is %+v", u)
			}
		}
		if err := r.SetDisabled(ctx, "test", "anna", true); !errors.Is(err, ErrLastAdmin) {
			t.Errorf("the last admin was disabled: %v", err)
		}
		if err := r.SetDisabled(ctx, "test", "otto", false); err != nil {
			t.Fatal(err)
		}
		if _, err := r.CheckPassword(ctx, "otto", "long enough"); err != nil {
			t.Errorf("an enabled user: %v", err)
		}
		if err := r.SetDisabled(ctx, "test", "nobody", true); !errors.Is(err, ErrNoUser) {
			t.Errorf("nobody: %v", err)
		}
	})
}

// TestTheLastEnabledAdminStays: of two admins one is disabled, so the other cannot be deleted.
func TestTheLastEnabledAdminStays(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, registry.Options{DSN: dsn})
		ctx := t.Context()
		for _, name := range []string{"anna", "berta"} {
			if err := r.CreateUser(ctx, "test", name, "long enough", RoleAdmin); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.SetDisabled(ctx, "test", "berta", true); err != nil {
			t.Fatal(err)
		}
		if err := r.DeleteUser(ctx, "test", "anna"); !errors.Is(err, ErrLastAdmin) {
			t.Errorf("the last enabled admin was deleted: %v", err)
		}
		if err := r.DeleteUser(ctx, "test", "berta"); err != nil {
			t.Errorf("a disabled admin cannot be deleted: %v", err)
		}
	})
}
