package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/relay/ddl"
)

// newOutbox makes an outbox with one row that is set aside, and returns its DSN.
func newOutbox(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	script, err := ddl.Of(ddl.SQLite, ddl.Table)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(ddl.Statements(script),
		"INSERT INTO wakecall_outbox (op, topic, job_id, state, last_error) "+
			"VALUES ('push', 'a', 'x', 'refused', 'topic a: not found')") {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return "sqlite://" + file
}

func TestRowsThatAreSetAsideAreListedRetriedAndDropped(t *testing.T) {
	dsn := newOutbox(t)
	env := []string{"WAKECALL_RELAY_DSN=" + dsn}
	got := wakecall(t, env, "", "relay", "list")
	if got.code != exitFailed || !strings.Contains(got.out, "topic a: not found") || got.err != "" {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
	if got := wakecall(t, env, "", "relay", "list", "-o", "json"); !strings.Contains(got.out, `"seq": 1`) {
		t.Error(got.out)
	}
	if got := wakecall(t, nil, "", "relay", "retry", "1", "--dsn", dsn); got.code != exitDone {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	if got := wakecall(t, env, "", "relay", "list"); got.code != exitDone || !strings.Contains(got.out, "no rows") {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
	if got := wakecall(t, env, "", "relay", "drop", "1"); got.code != exitFailed ||
		!strings.Contains(got.err, "wakecall relay list") {
		t.Errorf("code %d: %s", got.code, got.err)
	}
}

func TestTheOutboxTableIsPrinted(t *testing.T) {
	for _, database := range ddl.Databases {
		got := wakecall(t, nil, "", "relay", "ddl", database, "--table", "shop.jobs")
		if got.code != exitDone || !strings.Contains(got.out, "CREATE TABLE IF NOT EXISTS shop.jobs (") {
			t.Errorf("code %d: %s%s", got.code, got.out, got.err)
		}
	}
}

func TestWrongRelaysDoNotStart(t *testing.T) {
	dir, dsn := t.TempDir(), newOutbox(t)
	file := filepath.Join(dir, "dsn")
	for name, text := range map[string]string{file: dsn + "\n", filepath.Join(dir, "api-token"): "secret"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, says := range map[string]string{
		"relay":                           "WAKECALL_RELAY_DSN",
		"relay --dsn oracle://u:geheim@":  "must be mysql://",
		"relay --dsn sqlite:///none/x":    "no such file",
		"relay --dsn " + dsn:              "--topics is required",
		"relay --topics A --dsn " + dsn:   "--topics A",
		"relay --poison no --dsn " + dsn:  "--poison",
		"relay --attempts 0 --dsn " + dsn: "--attempts 0",
		"relay --table a;b --dsn " + dsn:  "a;b",
		"relay nonsense":                  "nonsense",
		"relay ddl oracle":                "mysql, postgres, sqlite",
		"relay drop x --dsn " + dsn:       "must be a number",
	} {
		got := wakecall(t, []string{"WAKECALL_DATA_DIR=" + dir}, "", strings.Fields(line)...)
		if got.code != exitUsage || !strings.Contains(got.err, says) || strings.Contains(got.err, "geheim") {
			t.Errorf("%s: code %d, %s", line, got.code, got.err)
		}
	}
	both := []string{"WAKECALL_RELAY_DSN=" + dsn, "WAKECALL_RELAY_DSN_FILE=" + file}
	if got := wakecall(t, both, "", "relay", "list"); got.code != exitUsage || !strings.Contains(got.err, "both set") {
		t.Errorf("code %d: %s", got.code, got.err)
	}
	if got := wakecall(t, both[1:], "", "relay", "list"); !strings.Contains(got.out, "not found") {
		t.Errorf("code %d: %s%s", got.code, got.out, got.err)
	}
}

func TestADSNIsRemovedFromTheCommandLine(t *testing.T) {
	got := withoutFlag([]string{"wakecall", "relay", "--dsn", "a", "--topics", "x", "--dsn=b"}, "--dsn")
	if !slices.Equal(got, []string{"wakecall", "relay", "--topics", "x"}) {
		t.Error(got)
	}
}
