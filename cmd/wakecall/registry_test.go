package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// step is a command line on a registry, and its expected result.
type step struct {
	line string
	code int
	says string // in standard output and standard error
}

// steps runs command lines in order, and returns the output of the last.
func steps(t *testing.T, list ...step) (last ran) {
	t.Helper()
	for _, s := range list {
		last = here(nil, "", strings.Fields(s.line)...)
		if last.code != s.code || !strings.Contains(last.out+last.err, s.says) {
			t.Errorf("%s: code %d, want %d and %q: %s%s", s.line, last.code, s.code, s.says, last.out, last.err)
		}
	}
	return last
}

// TestTokensWithoutAServer: they are created, listed without their secrets, and revoked directly in the registry.
func TestTokensWithoutAServer(t *testing.T) {
	t.Chdir(t.TempDir())
	got := here(nil, "", "token", "list", "-o", "json")
	if got.code != 0 || strings.TrimSpace(got.out) != "[]" {
		t.Errorf("no token: code %d: %s%s", got.code, got.out, got.err)
	}
	got = here(nil, "", "token", "create", "shop", "--rights", "push,read", "--topics", "shop.*,mail", "--expires",
		"2099-04-02T05:04:05+02:00")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	secret := lines[len(lines)-1]
	secret = secret[strings.LastIndexByte(secret, ' ')+1:]
	for _, want := range []string{"push,read", "shop.*,mail", "2099-04-02T03:04:05.000Z (in 26753 days)"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("a new token does not show %s: %s", want, got.out)
		}
	}
	if got.code != 0 || len(secret) < 32 || !strings.Contains(got.err, "not shown again") {
		t.Errorf("code %d, secret %q: %s", got.code, secret, got.err)
	}
	last := steps(t,
		step{"token create x", 2, "rights: required"},
		step{"token create x --rights push", 2, "topics: required"},
		step{"token create x --rights push,fly --topics *", 2, "fly"},
		step{"token create x --rights push,push --topics *", 2, "is a duplicate"},
		step{"token create x --rights push --topics Shop", 2, "Shop"},
		step{"token create x --rights push --topics * --expires soon", 2, "90d"},
		step{"token create x --rights push --topics * --expires -1h", 2, "not in the future"},
		step{"token create x --rights push --topics * --expires 2026-01-02T03:04:05Z", 2, "not in the future"},
		step{"token create x --rights push --topics * --expires 99999999d", 2, "100 years"},
		step{"token revoke x", 2, "wakecall token list"},
		step{"token revoke -1", 2, "usage"},
		step{"token revoke 99", 1, "wakecall token list"},
		step{"token create ci --rights manage --topics * -o json", 0, `"expires_at": null`},
		step{"token list", 0, "never"},
	)
	if strings.Contains(last.out, secret) || strings.Count(last.out, "\n") != 3 {
		t.Errorf("listed as\n%s", last.out)
	}
	var list []struct {
		ID         int
		Name       string
		Rights     []string
		ExpiresAt  *string `json:"expires_at"`
		LastUsedAt *string `json:"last_used_at"`
		Token      string
	}
	got = here(nil, "", "token", "list", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != 2 {
		t.Fatalf("%v: %s", err, got.out)
	}
	if one := list[0]; one.Name != "shop" || one.Token != "" || one.LastUsedAt != nil ||
		*one.ExpiresAt != "2099-04-02T03:04:05.000Z" {
		t.Errorf("%+v", one)
	}
	steps(t, step{fmt.Sprint("token revoke ", list[0].ID), 0, "revoked token"},
		step{fmt.Sprint("token revoke -o json ", list[1].ID), 0, `"revoked": true`},
		step{fmt.Sprint("token revoke ", list[0].ID), 1, "wakecall token list"}, step{"token list -o json", 0, "[]"})
}

// TestShardsAreRenamedAndDrained in the registry. No jobs can be lost, because no Redis answers.
func TestShardsAreRenamedAndDrained(t *testing.T) {
	t.Chdir(t.TempDir())
	steps(t,
		step{"shard add a --url redis://:hidden@127.0.0.1:1/0", 0, "warning: "},
		step{"shard rename a", 2, "NEW is required"},
		step{"shard rename none b", 1, "none"},
		step{"shard rename a Not,A,Name", 1, "Not,A,Name"},
		step{"shard rename a main", 0, "shard main (redis://:***@127.0.0.1:1/0, active) was renamed from a"},
		step{"shard drain a", 1, "no such shard"},
		step{"shard drain main", 1, "only active one"},
		step{"shard add b --url redis://127.0.0.1:2", 0, "saved"},
		step{"shard rename b main", 1, "main"},
		step{"shard add c --url redis://127.0.0.1:2", 1, "is the Redis of shard b"},
		step{"shard drain main --detach", 0, "draining) is draining"},
		step{"shard drain main --detach", 0, "draining) is draining"},
		step{"shard drain b --detach", 1, "only active one"},
		step{"shard delete main", 1, "does not answer, and may have jobs"},
		step{"shard put main --state offline", 0, "offline) saved"},
		step{"shard delete main -o json", 0, `"url": "redis://:***@127.0.0.1:1/0"`},
		step{"shard delete b", 1, "is active"},
		step{"shard delete b --force", 0, "removed"},
	)
}

// TestAMaskedURLKeepsItsPassword: a URL that was copied from a list has a mask for the stored password.
func TestAMaskedURLKeepsItsPassword(t *testing.T) {
	t.Chdir(t.TempDir())
	steps(t,
		step{"shard add a --url redis://:hidden@127.0.0.1:1/0", 0, "saved"},
		step{"shard put a --url redis://:***@127.0.0.1:1/0 --state offline", 0, "offline) saved"},
		step{"shard put b --url redis://:***@127.0.0.1:1/0", 2, "--url"},
	)
}

// TestTheRegistryIsNamedWhenItCannotBeOpened, without its password, and with the remedy.
func TestTheRegistryIsNamedWhenItCannotBeOpened(t *testing.T) {
	for _, line := range []string{
		"token list", "shard add a --url redis://127.0.0.1:1", "token revoke 1", "migrate forget-secrets",
	} {
		env := []string{"WAKECALL_REGISTRY_DSN=mysql://u:hidden@tcp(127.0.0.1:1)/w"}
		got := wakecall(t, env, "", strings.Fields(line)...)
		if got.code != 1 || !strings.Contains(got.err, "127.0.0.1:1") || !strings.Contains(got.err, "registry.dsn") ||
			strings.Contains(got.err, "hidden") {
			t.Errorf("%s: code %d: %s", line, got.code, got.err)
		}
	}
	got := wakecall(t, []string{"WAKECALL_DATA_DIR=/dev/null/data"}, "", "token", "list")
	if got.code != 1 || !strings.Contains(got.err, "data_dir /dev/null/data") {
		t.Errorf("a data_dir that cannot be created: code %d: %s", got.code, got.err)
	}
}

// TestTheRegistryIsCopied to an empty database, with its tokens, and without a password in an error.
func TestTheRegistryIsCopied(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("new-dsn", []byte("sqlite:new.db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	steps(t,
		step{"token create shop --rights push --topics *", 0, "shop"},
		step{"registry copy", 2, "--to is required"},
		step{"registry copy --to sqlite:new.db", 1, "wakecall migrate up --registry-dsn sqlite:PATH"},
		step{"registry copy --to @none", 1, "none"},
		step{"registry copy --to postgres://u:hidden@h:x/w", 2, "--to: registry postgres://u:<secret>@h"},
		step{"registry copy --to mysql://u:hidden@tcp(127.0.0.1:1)/w", 1, "mysql://u:<secret>@tcp(127.0.0.1:1)/w"},
		step{"migrate up --registry-dsn sqlite:new.db", 0, "applied"},
		step{"registry copy --to @new-dsn --dry-run", 0, "would copy"},
		step{"registry copy --to @new-dsn", 0, "to sqlite:new.db"},
		step{"registry copy --to @new-dsn", 1, "must be empty"},
	)
	got := here([]string{"WAKECALL_REGISTRY_DSN=sqlite:new.db"}, "", "token", "list")
	if got.code != 0 || !strings.Contains(got.out, "shop") {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
}

// TestForgettingSecretsOfAnEmptyRegistryRemovesNothing, and creates its key.
func TestForgettingSecretsOfAnEmptyRegistryRemovesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	steps(t, step{"token list", 0, ""}, step{"migrate forget-secrets", 0, "nothing was removed"},
		step{"migrate forget-secrets --output json", 0, "{"}, step{"migrate forget-secrets x", 2, `"x"`})
	if files, _ := filepath.Glob("data/secret-key"); len(files) != 1 {
		t.Error("no key was created")
	}
}

// TestStatusReportsAPendingMigration by its exit code, so that a script can wait for the upgrade.
func TestStatusReportsAPendingMigration(t *testing.T) {
	t.Chdir(t.TempDir())
	steps(t, step{"token list", 0, ""}, step{"migrate status", 0, "up to date"})
	t.Chdir(t.TempDir())
	got := here(nil, "", "migrate", "status", "--registry-dsn", "sqlite:fresh.db")
	if got.code != 1 || !strings.Contains(got.out, "missing") || !strings.Contains(got.err, "wakecall migrate up") {
		t.Errorf("a fresh database: code %d: %s%s", got.code, got.out, got.err)
	}
}
