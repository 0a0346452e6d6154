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

// OpenRegistry opens the registry and migrates its schema. Other hosts may do so at the same time.
func OpenRegistry(
	cfg *conf.Config, log *slog.Logger, announce func(context.Context, int64),
) (*registry.Registry, error) {
	key, err := secretKey(cfg)
	if err != nil {
		return nil, err
	}
	return registry.Open(registry.Options{
		DSN: cfg.RegistryDSN().Reveal(), SnapshotFile: cfg.SnapshotFile(), Migrate: true, Logger: log,
		SecretKey: key, Announce: announce,
	})
}

// ForgetSecrets makes this host's key the registry's; see registry.ForgetSecrets.
func ForgetSecrets(ctx context.Context, cfg *conf.Config) (registry.Forgotten, error) {
	key, err := secretKey(cfg)
	if err != nil {
		return registry.Forgotten{}, err
	}
	return registry.ForgetSecrets(ctx, registry.Options{DSN: cfg.RegistryDSN().Reveal(), SecretKey: key})
}

// secretKey returns the key that encrypts secrets in the registry, or none without a data_dir, where commands need
// none.
func secretKey(cfg *conf.Config) ([]byte, error) {
	if _, err := os.Stat(cfg.DataDir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return seal.LoadKey(filepath.Join(cfg.DataDir, "secret-key"))
}

// CommonSettings returns the settings that all hosts should share, for queue.Options. It includes a fingerprint of the
// secret key, and is empty while there is no key.
func CommonSettings(cfg *conf.Config) string {
	path := filepath.Join(cfg.DataDir, "secret-key")
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	key, err := seal.LoadKey(path)
	if err != nil {
		return "" // code that needs the key reports the error
	}
	return fmt.Sprintf("priorities %s and the secret-key %s", cfg.Priorities, seal.Fingerprint(string(key)))
}

// HostName returns the name of this host and its installation for other hosts.
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

// adviceOnDatabase returns advice, and what works without the database.
func adviceOnDatabase(cfg *conf.Config, err error) string {
	text := err.Error()
	advice := "Is the database running there, and is registry.dsn right?"
	switch {
	case strings.Contains(text, "Access denied"):
		advice = "Correct the user and password in registry.dsn, or grant them: GRANT ALL ON DATABASE.* TO 'USER'@'%'"
	case strings.Contains(text, "Unknown database"):
		advice = "Create it: CREATE DATABASE NAME CHARACTER SET utf8mb4"
	}
	if _, err := os.Stat(cfg.SnapshotFile()); err == nil {
		advice += " Meanwhile pushes and callbacks continue with the snapshot in " + cfg.SnapshotFile()
	}
	return advice
}
