package setup

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestADataDirThatOthersPreparedIsRefused: a link could make Wakecall write to any of its user's files, and a file of
// another user's could be changed at any time.
func TestADataDirThatOthersPreparedIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"master.lock", "journal", "registry.db"} {
		cfg := load(t)
		if err := MakeDataDir(cfg); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(cfg.DataDir, name)
		if err := os.Symlink(t.TempDir(), path); err != nil {
			t.Fatal(err)
		}
		if err := MakeDataDir(cfg); err == nil || !strings.Contains(err.Error(), path+" is a symbolic link") {
			t.Errorf("%s: %v", name, err)
		}
		if list := checkDirs(cfg); list[0].Verdict != Failed && list[1].Verdict != Failed {
			t.Errorf("%s is not found by a check: %+v", name, list)
		}
		if os.Geteuid() != 0 {
			continue // only root can give files away
		}
		_ = os.Remove(path)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 4711, -1); err != nil {
			t.Fatal(err)
		}
		if err := MakeDataDir(cfg); err == nil || !strings.Contains(err.Error(), path+" belongs to user 4711") {
			t.Errorf("%s of another user: %v", name, err)
		}
		_ = os.Remove(path)
		if err := os.Chown(cfg.DataDir, 4711, -1); err != nil {
			t.Fatal(err)
		}
		if err := MakeDataDir(cfg); err == nil || !strings.Contains(err.Error(), "belongs to user 4711") {
			t.Errorf("a data_dir of another user: %v", err)
		}
	}
	cfg := load(t)
	real := t.TempDir()
	if err := os.Symlink(real, cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	if err := MakeDataDir(cfg); err != nil {
		t.Errorf("a data_dir that is a link: %v", err)
	}
}

// TestWhatOthersPutIntoAnOpenDataDirIsRefused, under each name that Wakecall opens.
func TestWhatOthersPutIntoAnOpenDataDirIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"secret-key", "redis", "api-token", "registry.db-wal", "tasks", "master.sock"} {
		cfg := load(t)
		if err := os.Mkdir(cfg.DataDir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(cfg.DataDir, name)
		if err := os.Symlink(t.TempDir(), path); err != nil {
			t.Fatal(err)
		}
		if err := MakeDataDir(cfg); err != nil {
			t.Errorf("%s, where only its user can create it: %v", name, err)
		}
		if err := os.Chmod(cfg.DataDir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := MakeDataDir(cfg); err == nil || !strings.Contains(err.Error(), path+" is a symbolic link") {
			t.Errorf("%s: %v", name, err)
		}
		_ = os.Remove(path)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() != 0 {
			continue // only root can give files away
		}
		if err := os.Chown(path, 4711, -1); err != nil {
			t.Fatal(err)
		}
		if err := MakeDataDir(cfg); err == nil || !strings.Contains(err.Error(), path+" belongs to user 4711") {
			t.Errorf("%s of another user: %v", name, err)
		}
	}
}

// TestADataDirOfEverybodyWorks, as a volume of Kubernetes: with a warning, and what is in it is private.
func TestADataDirOfEverybodyWorks(t *testing.T) {
	t.Parallel()
	cfg := load(t)
	for _, dir := range []string{cfg.DataDir, cfg.JournalDir(), cfg.RedisDir()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := MakeDataDir(cfg); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]os.FileMode{cfg.DataDir: 0o777, cfg.JournalDir(): 0o700, cfg.RedisDir(): 0o700} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %o", dir, info.Mode(), err, want)
		}
	}
	var log strings.Builder
	WarnOpenDir(cfg, slog.New(slog.NewTextHandler(&log, nil)))
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), cfg.DataDir) {
		t.Errorf("the log says %q", log.String())
	}
	if list := checkDirs(cfg); list[1].Verdict != Warning {
		t.Errorf("a check: %+v", list)
	}
}
