package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// OpenRegistry opens the registry, and migrates its schema as migrate says. Other hosts may do so at the same time.
func OpenRegistry(
	cfg *conf.Config, log *slog.Logger, migrate registry.Migrate, announce func(context.Context, int64),
) (*registry.Registry, error) {
	key, _, err := sealKey(cfg, true)
	if err != nil {
		return nil, err
	}
	return registry.Open(registry.Options{
		DSN: cfg.RegistryDSN().Reveal(), SnapshotFile: cfg.SnapshotFile(), Migrate: migrate, Logger: log,
		SecretKey: key, Announce: announce, AuditKeep: cfg.Registry.AuditKeep,
	})
}

// OpenBackup opens the registry of a backup, in a copy that may be changed. The secret key must be here already.
func OpenBackup(cfg *conf.Config, path string) (*registry.Registry, error) {
	key, from, err := sealKey(cfg, false)
	if err == nil && key == nil {
		err = fmt.Errorf("no secret key: copy that of the installation that was backed up to %s; it is not in the "+
			"backup", from)
	}
	if err != nil {
		return nil, err
	}
	return registry.Open(registry.Options{DSN: "sqlite:" + path, SecretKey: key})
}

// ForgetSecrets makes this host's key the registry's; see registry.ForgetSecrets.
func ForgetSecrets(ctx context.Context, cfg *conf.Config) (registry.Forgotten, error) {
	key, _, err := sealKey(cfg, true)
	if err != nil {
		return registry.Forgotten{}, err
	}
	return registry.ForgetSecrets(ctx, registry.Options{DSN: cfg.RegistryDSN().Reveal(), SecretKey: key})
}

// sealKey returns the key that encrypts secrets in the registry, and its source. If create is set, it creates the
// default file if necessary. Without that file there is no key, nor without a data_dir: commands that need no data_dir
// need no key.
func sealKey(cfg *conf.Config, create bool) (key seal.Key, from string, err error) {
	if cfg.Registry.SealKey != "" {
		key, err = seal.ParseKey(cfg.Registry.SealKey.Reveal())
		return key, "registry.seal_key", err
	}
	if file := cfg.Registry.SealKeyFile; file != "" {
		key, err = seal.ReadKey(file)
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("registry.seal_key_file: %w; copy it from another host, or create the first one: "+
				"openssl rand -hex %d > %s", err, seal.KeySize, file)
		}
		return key, file, err
	}
	file := filepath.Join(cfg.DataDir, "secret-key")
	needed := file
	if create {
		needed = cfg.DataDir
	}
	if _, err := os.Stat(needed); errors.Is(err, os.ErrNotExist) {
		return nil, file, nil
	}
	key, err = seal.LoadKey(file)
	return key, file, err
}

// CommonSettings returns the settings that all hosts should share, for queue.Options. They include a fingerprint of the
// secret key, and are empty while there is no key.
func CommonSettings(cfg *conf.Config) string {
	key, _, err := sealKey(cfg, false)
	if err != nil || key == nil {
		return "" // code that needs the key reports the error
	}
	return fmt.Sprintf("priorities %s and the secret-key %s", cfg.Priorities, seal.Fingerprint(string(key)))
}

// HostName returns the name under which other hosts know this installation.
func HostName(cfg *conf.Config) string {
	name, err := os.Hostname()
	if err != nil {
		name = "a host"
	}
	return name + " (" + cfg.DataDir + ")"
}

// ExplainRegistry adds advice to an error about a database that does not answer.
func ExplainRegistry(cfg *conf.Config, err error) error {
	if errors.Is(err, registry.ErrUnavailable) {
		return fmt.Errorf("%w. %s", err, adviceOnDatabase(cfg, err))
	}
	return err
}

// knownErrors are texts of errors, of MySQL and PostgreSQL, and the remedies. The last one also comes before others,
// because sslmode=prefer tries TLS first.
var knownErrors = []struct{ text, advice string }{
	{"Access denied", "Correct the user and password in registry.dsn, or grant them: GRANT ALL ON DATABASE.* TO " +
		"'USER'@'%' (a % in the password is written %25)"},
	{"Unknown database", "Create it: CREATE DATABASE NAME CHARACTER SET utf8mb4"},
	{"SQLSTATE 28P01", "Correct the user and password in registry.dsn (special characters are percent-encoded), or " +
		"create the user: CREATE ROLE NAME LOGIN PASSWORD '…'"},
	{"SQLSTATE 28000", "Create the user, or allow it, this host and its TLS (?sslmode= in registry.dsn) in the " +
		"server's pg_hba.conf"},
	{"SQLSTATE 3D000", "Create it: CREATE DATABASE NAME OWNER USER ENCODING 'UTF8' TEMPLATE template0"},
	{"SQLSTATE 42501", "Let the user create tables: ALTER DATABASE NAME OWNER TO USER"},
	{"SQLSTATE 3F000", "Create the schema in search_path: CREATE SCHEMA NAME AUTHORIZATION USER"},
	{"SQLSTATE 53300", "Raise the server's max_connections: each process of a host uses up to 4"},
	{"unsupported startup parameter", "Let PgBouncer ignore it: ignore_startup_parameters = statement_timeout, " +
		"idle_in_transaction_session_timeout"},
	{"read only connection", "Name the primary in registry.dsn, or all servers: " +
		"postgres://USER:PASSWORD@HOST1,HOST2/NAME"},
	{"unknown authority", "Trust the authority of the server's certificate in the machine's store, or for PostgreSQL " +
		"in registry.dsn: ?sslmode=verify-full&sslrootcert=FILE"},
	{"server refused TLS connection", "Turn on TLS in the server, or use ?sslmode=disable in registry.dsn"},
}

// adviceOnDatabase returns advice on an error, and says what works without the database.
func adviceOnDatabase(cfg *conf.Config, err error) string {
	advice := "Is the database running, and is registry.dsn correct?"
	for _, known := range knownErrors {
		if strings.Contains(err.Error(), known.text) {
			advice = known.advice
			break
		}
	}
	if _, err := os.Stat(cfg.SnapshotFile()); err == nil {
		advice += " Meanwhile, pushes and callbacks continue with the snapshot in " + cfg.SnapshotFile()
	}
	return advice
}
