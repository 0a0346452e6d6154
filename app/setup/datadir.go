package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/log/printable"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/master/child"
)

// MakeDataDir creates data_dir, readable by its owner only, or checks that another user could not have prepared it.
func MakeDataDir(cfg *conf.Config) error {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data_dir %s: %w; set it to a directory that this user can write to", cfg.DataDir, err)
	}
	if err := foreignDataDir(cfg.DataDir); err != nil {
		return fmt.Errorf("data_dir: %w", err)
	}
	if err := tryWrite(cfg.DataDir); err != nil {
		return fmt.Errorf("data_dir %s: %w; give it to this user, or set another directory", cfg.DataDir,
			err)
	}
	return closeDirs(cfg.DataDir)
}

// Names that Wakecall opens in data_dir. Where nobody else can create files, its user may make links of openedInOpen.
var (
	openedAlways = []string{child.LockFile, "journal", "registry.db"}
	openedInOpen = []string{"registry.db-wal", "registry.db-shm", "registry.db-journal", "registry-snapshot.json",
		"redis", "tasks", "secret-key", registry.TokenFile, registry.PasswordFile, "alerts.json", master.ControlSocket}
)

// foreignDataDir returns an error if a directory, or what is opened in it by its name, leads to other people's files or
// belongs to them. Where journal.dir or registry.dsn lead is for whoever set them to decide.
func foreignDataDir(dir string) error {
	names := openedAlways
	info, err := os.Stat(dir) // it may be a link itself
	if err == nil {
		err = foreign(dir, info)
		if isOpen(info) {
			names = slices.Concat(names, openedInOpen)
		}
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, statErr := os.Lstat(path)
		switch {
		case errors.Is(statErr, fs.ErrNotExist):
		case statErr != nil:
			err = errors.Join(err, statErr)
		case info.Mode()&fs.ModeSymlink != 0:
			err = errors.Join(err, fmt.Errorf("%s is a symbolic link, which could lead to any file: remove it, and "+
				"set data_dir, journal.dir, registry.dsn or registry.seal_key_file to where it leads", path))
		default:
			err = errors.Join(err, foreign(path, info))
		}
	}
	return err
}

func foreign(path string, info fs.FileInfo) error {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if us := os.Geteuid(); owner != us && owner != 0 {
		return fmt.Errorf("%s belongs to user %d, and Wakecall runs as user %d: run it as that user, or give it to "+
			"this one (chown -R %[3]d %[4]s)", path, owner, us, printable.Word(path))
	}
	return nil
}

// closeDirs makes the directories in a data_dir that others may enter private. A volume of Kubernetes is such a
// directory (emptyDir has mode 0777), and must stay as it is.
func closeDirs(dir string) error {
	if info, err := os.Stat(dir); err != nil || !isOpen(info) {
		return err
	}
	for _, name := range []string{"journal", "redis", "tasks"} {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err != nil || !info.IsDir() || info.Mode().Perm()&0o077 == 0 {
			continue // if it is not there, it is created with mode 0700
		}
		if err := os.Chmod(path, 0o700); err != nil {
			return err
		}
	}
	return nil
}

func isOpen(info fs.FileInfo) bool { return info.Mode().Perm()&0o002 != 0 }

const (
	openDir   = "every user of this machine may create and replace files in it"
	closeThem = "chmod 700 it, unless it is a volume of a container"
)

// WarnOpenDir logs a warning if everybody may write to data_dir.
func WarnOpenDir(cfg *conf.Config, log *slog.Logger) {
	if info, err := os.Stat(cfg.DataDir); err == nil && isOpen(info) {
		log.Warn("data_dir: "+openDir+"; "+closeThem, "data_dir", cfg.DataDir)
	}
}

func checkOpenDir(dir string) []Finding {
	if err := foreignDataDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return []Finding{failedErr("data_dir", err, "")}
	}
	if info, err := os.Stat(dir); err == nil && isOpen(info) {
		return []Finding{warn("data_dir", dir+": "+openDir, closeThem)}
	}
	return nil
}
