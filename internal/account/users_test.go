package account

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
	"github.com/wakecall/wakecall/test/dbtest"
)

func TestMain(m *testing.M) {
	PasswordCost = bcrypt.MinCost
	dbtest.Main(m)
}

// store has the users, and the registry that audits their changes.
type store struct {
	*registry.Registry
	*Store
}

func open(t *testing.T, o registry.Options) store {
	t.Helper()
	o.Migrate = registry.MigrateOlder
	r, err := registry.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return store{r, NewStore(r)}
}

func secretKey(b byte) seal.Key { return bytes.Repeat([]byte{b}, seal.KeySize) }

func TestUsers(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		ctx := t.Context()
		r := open(t, registry.Options{DSN: dsn})
		const password = "correct horse battery"
		if err := r.CreateUser(ctx, "me", "anna@shop.example", password, RoleAdmin); err != nil {
			t.Fatal(err)
		}
		err := r.CreateUser(ctx, "me", "anna@shop.example", password, RoleViewer)
		if !errors.As(err, new(*registry.FieldError)) {
			t.Errorf("second user of the name: %v", err)
		}
		if u, err := r.CheckPassword(ctx, "anna@shop.example", password); err != nil || u.Role != RoleAdmin {
			t.Errorf("right password: %+v, %v", u, err)
		}
		for _, c := range [][2]string{{"anna@shop.example", "wrong"}, {"anna@shop.example", ""}, {"nobody", password},
			{"", ""}, {"nobody", "nobody has this password"}} {
			if u, err := r.CheckPassword(ctx, c[0], c[1]); !errors.Is(err, ErrNoUser) {
				t.Errorf("%v: %+v, %v", c, u, err)
			}
		}
		if err := r.SetPassword(ctx, "me", "anna@shop.example", "another horse"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.CheckPassword(ctx, "anna@shop.example", password); !errors.Is(err, ErrNoUser) {
			t.Errorf("the old password: %v", err)
		}
		if _, err := r.CheckPassword(ctx, "anna@shop.example", "another horse"); err != nil {
			t.Errorf("the new password: %v", err)
		}
		for what, err := range map[string]error{
			"delete": r.DeleteUser(ctx, "me", "anna@shop.example"), "set role": r.SetRole(ctx, "me",
				"anna@shop.example", RoleViewer),
		} {
			if !errors.Is(err, ErrLastAdmin) {
				t.Errorf("%s of the last admin: %v", what, err)
			}
		}
		if err := r.CreateUser(ctx, "me", "bert", password, RoleOperator); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(r.SetRole(ctx, "me", "bert", RoleAdmin),
			r.DeleteUser(ctx, "me", "anna@shop.example")); err != nil {
			t.Fatal(err)
		}
		if list, err := r.ListUsers(ctx); err != nil || len(list) != 1 || list[0].Name != "bert" ||
			list[0].Role != RoleAdmin {
			t.Errorf("users = %+v, %v", list, err)
		}
		for what, err := range map[string]error{
			"set password": r.SetPassword(ctx, "me", "x", password), "set role": r.SetRole(ctx, "me", "x", RoleViewer),
			"delete": r.DeleteUser(ctx, "me", "x"),
		} {
			if !errors.Is(err, ErrNoUser) {
				t.Errorf("%s of an unknown user: %v", what, err)
			}
		}
	})
}

func TestUnknownUsersTakeAsLongAsKnownOnes(t *testing.T) {
	t.Parallel()
	if cost, err := bcrypt.Cost([]byte(unknownUserHash)); err != nil || cost != bcrypt.DefaultCost {
		t.Fatalf("the dummy hash has the cost %d, %v; passwords have %d", cost, err, bcrypt.DefaultCost)
	}
}

// TestUnknownUsersCostTheSameWork: signing in costs the same work for a name that is unknown, invalid, or of a disabled
// user, so that response times reveal no names. Without that work an answer takes a fiftieth of the time, so the margin
// is wide enough for any machine.
func TestUnknownUsersCostTheSameWork(t *testing.T) { // not in parallel, because it measures
	r := open(t, registry.Options{DSN: dbtest.SQLite(t)})
	const password = "correct horse"
	PasswordCost = bcrypt.DefaultCost
	defer func() { PasswordCost = bcrypt.MinCost }()
	for _, name := range []string{"anna", "former"} {
		if err := r.CreateUser(t.Context(), "test", name, password, RoleViewer); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.SetDisabled(t.Context(), "test", "former", true); err != nil {
		t.Fatal(err)
	}
	least := func(name, password string) (took time.Duration) {
		took = time.Hour
		for range 4 {
			began := processorTime(t)
			if _, err := r.CheckPassword(t.Context(), name, password); err != ErrNoUser {
				t.Fatalf("%s: %v", name, err)
			}
			took = min(took, processorTime(t)-began)
		}
		return took
	}
	known := least("anna", "wrong password")
	for what, try := range map[string][2]string{
		"an unknown name": {"nobody", password}, "a name with a space": {"anna ", password}, "no name": {"", password},
		"a long name":     {strings.Repeat("a", 1<<20), password},
		"a disabled user": {"former", password}, "a long password": {"nobody", strings.Repeat("x", 1<<16)},
		"no password": {"nobody", ""},
	} {
		if took := least(try[0], try[1]); took < known/5 {
			t.Errorf("%s is refused after %s, a wrong password after %s", what, took, known)
		}
	}
}

// processorTime is the CPU time of this process, so other processes on the machine do not count.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestSecondFactorsGoWithTheirUsers(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, registry.Options{DSN: dsn, SecretKey: secretKey(1)})
		ctx := t.Context()
		if err := r.SetTOTP(ctx, "me", "ann", "ABC"); !errors.Is(err, ErrNoUser) {
			t.Errorf("of an unknown user: %v", err)
		}
		for _, name := range []string{"root", "ann"} {
			if err := r.CreateUser(ctx, "me", name, "long enough", RoleAdmin); err != nil {
				t.Fatal(err)
			}
		}
		want := func(secret string) {
			t.Helper()
			if got, err := r.TOTPSecret(ctx, "ann"); err != nil || got != secret {
				t.Errorf("the secret is %q, want %q: %v", got, secret, err)
			}
		}
		want("")
		for _, secret := range []string{"ABC", "DEF"} {
			if err := r.SetTOTP(ctx, "me", "ann", secret); err != nil {
				t.Fatal(err)
			}
			want(secret)
		}
		if err := r.ClearTOTP(ctx, "me", "ann"); err != nil {
			t.Fatal(err)
		}
		want("")
		if err := errors.Join(r.SetTOTP(ctx, "me", "ann", "GHI"), r.DeleteUser(ctx, "me", "ann"),
			r.CreateUser(ctx, "me", "ann", "long enough", RoleViewer)); err != nil {
			t.Fatal(err)
		}
		want("") // a new user with the same name does not inherit it
	})
}

func TestAnExistingAdminIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := open(t, registry.Options{DSN: dbtest.SQLite(t)})
	if err := r.CreateUser(t.Context(), "me", "admin", "made by hand", RoleAdmin); err != nil {
		t.Fatal(err)
	}
	if made, err := r.Bootstrap(t.Context(), t.TempDir(), "", CreateFirst("")); err != nil || len(made) != 1 ||
		filepath.Base(made[0]) != registry.TokenFile {
		t.Errorf("created %v, %v", made, err)
	}
	if _, err := r.CheckPassword(t.Context(), "admin", "made by hand"); err != nil {
		t.Error(err)
	}
}

func TestTheFirstStartCreatesAnAdmin(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, registry.Options{DSN: dsn})
		files, err := r.Bootstrap(t.Context(), t.TempDir(), "", CreateFirst(""))
		if err != nil || len(files) != 2 || filepath.Base(files[1]) != registry.PasswordFile {
			t.Fatalf("files %v, %v", files, err)
		}
		password, err := os.ReadFile(files[1])
		if err != nil {
			t.Fatal(err)
		}
		u, err := r.CheckPassword(t.Context(), "admin", strings.TrimSpace(string(password)))
		if err != nil || u.Role != RoleAdmin {
			t.Errorf("the first password: %+v, %v", u, err)
		}
	})
}

// TestTheFirstStartTakesGivenSecrets, and writes none of them.
func TestTheFirstStartTakesGivenSecrets(t *testing.T) {
	t.Parallel()
	r := open(t, registry.Options{DSN: dbtest.SQLite(t)})
	const token, password = "wk_0123456789abcdef0123456789abcdef", "given by the operator"
	if made, err := r.Bootstrap(t.Context(), t.TempDir(), token, CreateFirst(password)); err != nil || len(made) != 0 {
		t.Errorf("created %v, %v", made, err)
	}
	if _, ok := r.Snapshot().Token(token); !ok {
		t.Error("the token is unknown")
	}
	if _, err := r.CheckPassword(t.Context(), "admin", password); err != nil {
		t.Error(err)
	}
}

func TestUsersAreValidated(t *testing.T) {
	t.Parallel()
	r := open(t, registry.Options{DSN: dbtest.SQLite(t)})
	user := func(name, password string, role Role) error {
		return r.CreateUser(t.Context(), "me", name, password, role)
	}
	const good = "long enough"
	for _, c := range []struct {
		field string
		err   error
	}{
		{"name", user("", good, RoleAdmin)}, {"name", user("A B", good, RoleAdmin)}, {"role", user("a", good, "root")},
		{"password", user("a", "short", RoleAdmin)}, {"password", user("a", strings.Repeat("x", 73), RoleAdmin)},
		{"password", r.SetPassword(t.Context(), "me", "a", "short")}, {"role", r.SetRole(t.Context(), "me", "a",
			"root")},
	} {
		var fe *registry.FieldError
		if !errors.As(c.err, &fe) || fe.Field != c.field || strings.Contains(c.err.Error(), "short") {
			t.Errorf("%s: %v", c.field, c.err)
		}
	}
}

func TestPasswordsAreNotAudited(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		r := open(t, registry.Options{DSN: dsn})
		if err := r.CreateUser(t.Context(), "me", "anna", "hidden hidden", RoleViewer); err != nil {
			t.Fatal(err)
		}
		all, err := r.Audit(t.Context(), registry.AuditFilter{Object: "user/anna", Action: "create"})
		if err != nil || len(all) != 1 {
			t.Fatalf("%d entries, %v", len(all), err)
		}
		text := string(all[0].Before) + string(all[0].After)
		if !strings.Contains(text, "viewer") || strings.Contains(text, "hidden") || strings.Contains(text, "$2a$") {
			t.Errorf("the audit trail has %s", text)
		}
	})
}
