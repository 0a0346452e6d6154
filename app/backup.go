package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/reconcile"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// What a backup's directory has.
const (
	backupManifest = "manifest.json" // written last: without it, a backup is not complete
	backupJobs     = "jobs"          // lines of a journal, one for each job, schedule and closed group
	backupJournal  = "journal"
	backupRegistry = "registry.db"
)

// backupFormat is the number of the present format of backups.
const backupFormat = 1

// Manifest says what a backup has.
type Manifest struct {
	Format  int                                 `json:"format"`
	Version string                              `json:"version"` // of Wakecall
	Began   time.Time                           `json:"began"`
	Instant time.Time                           `json:"instant"` // to which the journal brings the jobs
	Host    string                              `json:"host"`    // whose journal it has
	Shards  map[string]reconcile.SnapshotCounts `json:"shards"`
	Tables  []database.TableCopy                `json:"registry"`
	Files   map[string]string                   `json:"files"` // SHA-256 of each file, by its path
}

// Jobs returns the counts of all shards.
func (m *Manifest) Jobs() (sum reconcile.SnapshotCounts) {
	for _, c := range m.Shards {
		sum.Add(c)
	}
	return sum
}

// Backup writes a backup of this installation to a directory, which must be empty or not exist. Wakecall may work
// meanwhile. The parts come in an order in which each brings the one before it up to date.
func Backup(
	ctx context.Context, cfg *conf.Config, version string, log *slog.Logger, dir string,
) (m Manifest, err error) {
	if err := makeEmptyDir(dir); err != nil {
		return m, err
	}
	if _, err := os.Stat(cfg.JournalDir()); err != nil {
		return m, fmt.Errorf("no journal: %w (set --data-dir)", err)
	}
	p, err := openParts(ctx, cfg, "backup", version, log, registry.MigrateNone)
	if err != nil {
		return m, setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	m = Manifest{Format: backupFormat, Version: version, Began: time.Now().UTC()}
	if m.Host, err = journal.Identity(cfg.JournalDir()); err != nil {
		return m, err
	}
	if m.Shards, err = p.backUpJobs(ctx, filepath.Join(dir, backupJobs)); err != nil {
		return m, fmt.Errorf("back up the jobs: %w", err)
	}
	m.Instant = time.Now().UTC()
	if err := journal.Copy(cfg.JournalDir(), filepath.Join(dir, backupJournal)); err != nil {
		return m, fmt.Errorf("back up the journal: %w", err)
	}
	if m.Tables, err = backUpRegistry(ctx, p.registry.DB(), filepath.Join(dir, backupRegistry)); err != nil {
		return m, fmt.Errorf("back up the registry: %w", err)
	}
	if m.Files, err = sumFiles(dir); err != nil {
		return m, fmt.Errorf("read the backup again: %w", err)
	}
	return m, writeManifest(dir, &m)
}

func makeEmptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%s is not empty: name a new directory", dir)
	}
	if err != nil {
		return err
	}
	return os.Chmod(dir, 0o700) //nolint:gosec // a directory
}

// backUpJobs writes the jobs of all shards as a journal.
func (p *parts) backUpJobs(ctx context.Context, dir string) (map[string]reconcile.SnapshotCounts, error) {
	if err := allAnswer(p.queue.Health(ctx), ""); err != nil {
		return nil, err
	}
	j, err := journal.Open(journal.Options{Dir: dir, Logger: p.log})
	if err != nil {
		return nil, err
	}
	defer j.Close()
	shards := map[string]reconcile.SnapshotCounts{}
	for _, b := range p.queue.Shards.Buckets() {
		counts, err := reconcile.Snapshot(ctx, b, j.Requests)
		if err != nil {
			return nil, err
		}
		counts.Add(shards[b.Name()])
		shards[b.Name()] = counts
	}
	return shards, nil
}

func backUpRegistry(ctx context.Context, from *database.DB, path string) (tables []database.TableCopy, err error) {
	to, err := database.Open("sqlite:"+path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if _, err := to.Migrate(ctx); err != nil {
		return nil, err
	}
	return database.Copy(ctx, database.CopyOptions{From: from, To: to})
}

func writeManifest(dir string, m *Manifest) error {
	return disk.Replace(filepath.Join(dir, backupManifest), func(f *os.File) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(m)
	})
}

// sumFiles syncs the files of a backup, and returns their checksums.
func sumFiles(dir string) (map[string]string, error) {
	sums := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return disk.SyncDir(path)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == backupManifest {
			return err
		}
		sums[name], err = sumFile(path)
		return err
	})
	return sums, err
}

func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), f.Sync()
}

// readManifest reads and checks a backup: that it is complete, and that its files are as they were written.
func readManifest(dir string) (m Manifest, err error) {
	text, err := os.ReadFile(filepath.Join(dir, backupManifest))
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s has no complete backup: %w", dir, err)
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read %s: %w", backupManifest, err)
	}
	if m.Format != backupFormat {
		return m, fmt.Errorf("%s has format %d, which wakecall %s wrote; this one restores format %d", dir, m.Format,
			m.Version, backupFormat)
	}
	for name, want := range m.Files {
		if !filepath.IsLocal(name) {
			return m, fmt.Errorf("%s names %q, which is outside of the backup", backupManifest, name)
		}
		got, err := sumFile(filepath.Join(dir, name))
		if err != nil {
			return m, err
		}
		if !strings.EqualFold(got, want) {
			return m, fmt.Errorf("%s is not as the backup wrote it: its SHA-256 is %s", filepath.Join(dir, name), got)
		}
	}
	return m, nil
}
