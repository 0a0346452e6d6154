package setup

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
)

// openWithKey opens a registry on a host with its own data_dir, and closes it.
func openWithKey(t *testing.T, dsn string, env ...string) (*conf.Config, *registry.Registry, error) {
	t.Helper()
	cfg, err := conf.Load(conf.LoadOptions{
		Env: append(env, "WAKECALL_REGISTRY_DSN="+dsn, "WAKECALL_DATA_DIR="+t.TempDir()), Search: []string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenRegistry(cfg, slog.New(slog.DiscardHandler), registry.MigrateOlder, nil)
	if err == nil {
		t.Cleanup(func() { _ = r.Close() })
	}
	return cfg, r, err
}

// TestHostsShareASealKey from the environment or a file, although each has its own data_dir, in which no key is
// created. A host with another key does not start.
func TestHostsShareASealKey(t *testing.T) {
	dsn, key := "sqlite:"+filepath.Join(t.TempDir(), "registry.db"), strings.Repeat("a5", 32)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	first, r, err := openWithKey(t, dsn, "WAKECALL_REGISTRY_SEAL_KEY="+key)
	if err != nil {
		t.Fatal(err)
	}
	secret := registry.Shard{Name: "one", URL: "redis://:hunter2@h:1", State: registry.ShardActive}
	if err := r.PutShard(t.Context(), "me", secret); err != nil {
		t.Fatal(err)
	}
	second, r, err := openWithKey(t, dsn, "WAKECALL_REGISTRY_SEAL_KEY_FILE="+file)
	if err != nil {
		t.Fatal(err)
	}
	if list := r.ListShards(); len(list) != 1 || list[0].URL != secret.URL {
		t.Errorf("the second host reads %v", list)
	}
	if CommonSettings(first) != CommonSettings(second) || CommonSettings(first) == "" {
		t.Errorf("settings %q and %q", CommonSettings(first), CommonSettings(second))
	}
	for _, cfg := range []*conf.Config{first, second} {
		if _, err := os.Stat(filepath.Join(cfg.DataDir, "secret-key")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a key was made: %v", err)
		}
		if found, _ := checkRegistry(t.Context(), cfg); len(found) != 2 || found[1].Verdict != Good {
			t.Errorf("the check finds %+v", found)
		}
	}
	other := "WAKECALL_REGISTRY_SEAL_KEY=" + strings.Repeat("5a", 32)
	for _, env := range [][]string{nil, {other}} {
		_, _, err := openWithKey(t, dsn, env...)
		if !errors.Is(err, registry.ErrOtherKey) || !strings.Contains(err.Error(), "registry.seal_key") {
			t.Errorf("with %s: %v", env, err)
		}
	}
}

func TestAMissingSealKeyFileIsNotCreated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	_, _, err := openWithKey(t, "sqlite:"+filepath.Join(t.TempDir(), "r.db"), "WAKECALL_REGISTRY_SEAL_KEY_FILE="+file)
	if err == nil || !strings.Contains(err.Error(), "registry.seal_key_file: ") ||
		!strings.Contains(err.Error(), "openssl rand -hex 32 > "+file) {
		t.Errorf("got %v", err)
	}
}
