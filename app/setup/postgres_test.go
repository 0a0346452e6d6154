package setup

import (
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
		cfg, err := conf.Load(conf.LoadOptions{Env: []string{"WAKECALL_DATA_DIR=" + t.TempDir(),
			"WAKECALL_REGISTRY_DSN=" + strings.Replace(dsn, "USER", user, 1) + rest}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = registry.Open(registry.Options{DSN: cfg.RegistryDSN().Reveal(), Migrate: registry.MigrateOlder})
		if err = ExplainRegistry(cfg, err); err == nil || !strings.Contains(err.Error(), advice) ||
			strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s as %s: %v", rest, user, err)
		}
	}
}
