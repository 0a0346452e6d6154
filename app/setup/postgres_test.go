package setup

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/dbtest"
)

// TestErrorsOfPostgreSQLNameTheRemedy, without the password.
func TestErrorsOfPostgreSQLNameTheRemedy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes; run without -short")
	}
	s := dbtest.StartPostgres(t)
	s.Exec(t, "postgres", "CREATE ROLE limited LOGIN", "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE_PROVIDER libc "+
		"LOCALE 'C' TEMPLATE template0", "CREATE DATABASE fixed", "ALTER DATABASE fixed SET "+
		"default_transaction_read_only = on")
	dsn := "postgres://USER:hidden@" + s.Addr() + "/"
	for rest, advice := range map[string]string{
		"none":                      "CREATE DATABASE",
		"wakecall?user=nobody":      "Create the user",
		"wakecall?user=limited":     "ALTER DATABASE",
		"wakecall?sslmode=require":  "sslmode=disable",
		"wakecall?search_path=none": "CREATE SCHEMA",
		"latin":                     "ENCODING 'UTF8'",
		"fixed":                     "Name the primary",
		"wakecall?options=-c%20x%3D1&sslmode=disable": "Is the database running",
	} {
		user := "wakecall"
		if base, name, ok := strings.Cut(rest, "?user="); ok {
			rest, user = base, name
		}
		err := openRegistry(t, strings.Replace(dsn, "USER", user, 1)+rest)
		if err == nil || !strings.Contains(err.Error(), advice) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s as %s: %v", rest, user, err)
		}
	}
}

// openRegistry opens a registry until the end of the test, or returns the error with advice.
func openRegistry(t *testing.T, dsn string) error {
	t.Helper()
	cfg, err := conf.Load(conf.LoadOptions{Env: []string{
		"WAKECALL_DATA_DIR=" + t.TempDir(), "WAKECALL_REGISTRY_DSN=" + dsn,
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := registry.Open(registry.Options{DSN: cfg.RegistryDSN().Reveal(), Migrate: registry.MigrateOlder})
	if err != nil {
		return ExplainRegistry(cfg, err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return nil
}

// TestPostgreSQLWithTLS: every connection uses TLS, and a server whose certificate another authority signed is refused.
func TestPostgreSQLWithTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes; run without -short")
	}
	s := dbtest.StartPostgres(t)
	certificate := s.EnableTLS()
	dsn := "postgres://wakecall@" + s.Addr() + "/wakecall?sslmode=verify-full&sslrootcert="
	if err := openRegistry(t, dsn+certificate); err != nil {
		t.Fatal(err)
	}
	var encrypted, plain int
	const connections = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl) " +
		"FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname = 'wakecall'"
	err := s.Connect(t, "postgres").QueryRow(connections).Scan(&encrypted, &plain)
	if err != nil || encrypted == 0 || plain > 0 {
		t.Errorf("%d connections use TLS, %d do not, %v", encrypted, plain, err)
	}

	https := httptest.NewTLSServer(nil)
	https.Close()
	other := filepath.Join(t.TempDir(), "other.crt")
	block := pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw}
	if err := os.WriteFile(other, pem.EncodeToMemory(&block), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openRegistry(t, dsn+other); err == nil || !strings.Contains(err.Error(), "&sslrootcert=FILE") {
		t.Errorf("with another authority: %v", err)
	}
}
