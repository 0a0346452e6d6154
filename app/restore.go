package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/store"
)

// RestoreOptions say what is restored.
type RestoreOptions struct {
	Dir    string            // of the backup
	URLs   map[string]string // of shards that have another one now, by name
	DryRun bool              // only check
	Logger *slog.Logger
}

// Restore restores a backup on this host, which must not run Wakecall, into an empty registry and empty shards. The
// jobs become lines of the journal: a shard that is empty is compared with it at the start, as after a loss of data,
// and the highest revision decides about each job. A journal of the same host that is here stays, since it may know
// more. After an interruption Restore may be repeated: the registry comes last, in one transaction.
func Restore(ctx context.Context, cfg *conf.Config, o RestoreOptions) (m Manifest, err error) {
	if m, err = readManifest(o.Dir); err != nil {
		return m, err
	}
	if err := setup.MakeDataDir(cfg); err != nil {
		return m, err
	}
	temp, err := os.MkdirTemp(cfg.DataDir, disk.Unfinished)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	r, err := o.openRegistry(ctx, cfg, temp)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, s := range r.Snapshot().Shards {
		if err := requireEmptyShard(ctx, cfg, s); err != nil {
			return m, err
		}
	}
	to, err := o.openTarget(ctx, cfg, temp)
	if err != nil {
		return m, setup.ExplainRegistry(cfg, err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	registryCopy := database.CopyOptions{From: r.DB(), To: to, DryRun: true}
	if _, err := database.Copy(ctx, registryCopy); err != nil {
		return m, setup.ExplainRegistry(cfg, err)
	}
	if err := checkJournal(cfg.JournalDir(), &m); err != nil || o.DryRun {
		return m, err
	}
	if err := o.restoreJournal(ctx, cfg); err != nil {
		return m, fmt.Errorf("restore the journal: %w", err)
	}
	registryCopy.DryRun = false
	if m.Tables, err = database.Copy(ctx, registryCopy); err != nil {
		return m, fmt.Errorf("restore the registry: %w", err)
	}
	return m, nil
}

// openRegistry opens a copy of the backup's registry in which the shards have their present URLs.
func (o *RestoreOptions) openRegistry(ctx context.Context, cfg *conf.Config, temp string) (*registry.Registry, error) {
	path := filepath.Join(temp, backupRegistry)
	if err := journal.CopyFile(filepath.Join(o.Dir, backupRegistry), path); err != nil {
		return nil, err
	}
	r, err := setup.OpenBackup(cfg, path)
	if err != nil {
		return nil, fmt.Errorf("open the registry of the backup: %w", err)
	}
	for name, url := range o.URLs {
		if err := moveShard(ctx, r, name, url); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return r, nil
}

func moveShard(ctx context.Context, r *registry.Registry, name, url string) error {
	shards := r.Snapshot().Shards
	i := slices.IndexFunc(shards, func(s registry.Shard) bool { return s.Name == name })
	if i < 0 {
		return fmt.Errorf("the backup has no shard %q", name)
	}
	s := shards[i]
	s.URL = url
	return r.PutShard(ctx, "restore", s)
}

// openTarget opens the registry's database, and gives an empty one its schema. A dry run uses a temporary one instead.
func (o *RestoreOptions) openTarget(ctx context.Context, cfg *conf.Config, temp string) (*database.DB, error) {
	dsn := cfg.RegistryDSN().Reveal()
	if o.DryRun {
		if empty, err := hasNoSchema(ctx, dsn); err != nil {
			return nil, err
		} else if empty {
			dsn = "sqlite:" + filepath.Join(temp, "empty.db")
		}
	}
	to, err := database.Open(dsn, nil)
	if err != nil {
		return nil, err
	}
	if err := to.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("registry %s: %w", to, err), to.Close())
	}
	if err := to.CheckSchema(ctx); errors.Is(err, registry.ErrSchemaOlder) {
		if _, err := to.Create(ctx); err != nil {
			return nil, errors.Join(err, to.Close())
		}
	}
	return to, nil
}

// hasNoSchema reports whether a database is empty, or a SQLite file that does not exist. It changes nothing.
func hasNoSchema(ctx context.Context, dsn string) (bool, error) {
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
	}
	db, err := database.Open(dsn, nil)
	if err != nil {
		return false, err
	}
	defer db.Close()
	steps, err := db.Migrations(ctx)
	return err == nil && !steps[0].Applied, err
}

// requireEmptyShard refuses a Redis with data: at the start it would be taken for the shard's present state, and the
// jobs of the backup would not be stored there.
func requireEmptyShard(ctx context.Context, cfg *conf.Config, s registry.Shard) error {
	if s.URL == registry.ManagedShard {
		list, err := os.ReadDir(cfg.RedisDir())
		if err == nil && len(list) > 0 {
			return fmt.Errorf("shard %s: %s is not empty: move it away", s.Name, cfg.RedisDir())
		}
		return nil
	}
	if s.State == registry.ShardOffline {
		return nil
	}
	shard, closeQueue, err := setup.OpenShard(ctx, cfg, s)
	if err != nil {
		return fmt.Errorf("shard %s: %w", s.Name, err)
	}
	defer closeQueue()
	for _, b := range shard.Buckets() {
		if err := requireEmptyBucket(ctx, b); err != nil {
			return fmt.Errorf("shard %s (%s): %w; `--shard %[1]s=URL` names another Redis", s.Name,
				registry.MaskURL(s.URL), err)
		}
	}
	return nil
}

func requireEmptyBucket(ctx context.Context, b *store.Bucket) error {
	n, err := b.Shard().Redis().Exists(ctx, b.Key("rev"), b.Key("format"), b.Key("topics")).Result()
	if err == nil && n > 0 {
		err = errors.New("it is not empty")
	}
	return err
}

// checkJournal refuses a journal here that is another host's, or that processes use.
func checkJournal(dir string, m *Manifest) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	leave, err := journal.Join(dir)
	if err != nil {
		return err
	}
	if !leave() {
		return errors.New("wakecall is running here: stop it first")
	}
	host, err := journal.Identity(dir)
	if err == nil && host != m.Host {
		err = fmt.Errorf("the journal in %s is of host %s, and the backup's of %s: move it away", dir, host, m.Host)
	}
	return err
}

// restoreJournal copies the journal, unless it is here, and appends the jobs.
func (o *RestoreOptions) restoreJournal(ctx context.Context, cfg *conf.Config) error {
	dir := cfg.JournalDir()
	if _, err := os.Stat(dir); err == nil {
		return o.appendJobs(ctx, dir)
	}
	unfinished := dir + ".restoring"
	if err := journal.Copy(filepath.Join(o.Dir, backupJournal), unfinished); err != nil {
		return err
	}
	if err := o.appendJobs(ctx, unfinished); err != nil {
		return err
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return err
	}
	return disk.SyncDir(filepath.Dir(dir))
}

// restoreStep is how many lines are written at once.
const restoreStep = 500

// appendJobs appends the lines with the jobs to a journal. A line that is there twice changes nothing.
func (o *RestoreOptions) appendJobs(ctx context.Context, dir string) error {
	j, err := journal.Open(journal.Options{Dir: dir, Logger: o.Logger})
	if err != nil {
		return err
	}
	defer j.Close()
	var lines []journal.RequestLine
	for line, err := range journal.ReadRequests(filepath.Join(o.Dir, backupJobs), journal.Range{}) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		line.TS = time.Time{} // the lines of a file are in the order of their times
		if lines = append(lines, line); len(lines) < restoreStep {
			continue
		}
		if err := j.Requests(lines); err != nil {
			return err
		}
		lines = lines[:0]
	}
	return j.Durably(lines)
}
