package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/wakecall/wakecall/test/harness/process"
)

// Backups are earlier states of a server's append-only file. A file that is only appended to contains all of its
// earlier states, so a backup is a hard link to each file, and its size at that time.
type Backups struct {
	redis *Redis
	dir   string
	kept  time.Duration

	mu   sync.Mutex
	list []backup // the oldest first
	made int
}

type backup struct {
	at    time.Time
	dir   string           // of the links
	sizes map[string]int64 // of the files, by name
}

const backupEvery = 250 * time.Millisecond

// manifest names the files of which the append-only file consists.
const manifest = "appendonly.aof.manifest"

// KeepBackups makes a backup several times a second until the test ends, and removes those that are older than kept.
func (r *Redis) KeepBackups(kept time.Duration) *Backups {
	r.t.Helper()
	b := &Backups{redis: r, dir: process.Dir(r.t, "redis-backups"), kept: kept}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(backupEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				b.add()
			}
		}
	}()
	r.t.Cleanup(func() { close(stop); <-done })
	return b
}

// add makes a backup, unless files are created or removed at that moment, and removes old ones.
func (b *Backups) add() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made++
	next := backup{at: time.Now(), dir: filepath.Join(b.dir, strconv.Itoa(b.made)), sizes: map[string]int64{}}
	if next.link(b.redis.aof()) != nil {
		_ = os.RemoveAll(next.dir) // removed at the latest with the test
		return
	}
	b.list = append(b.list, next)
	for len(b.list) > 1 && time.Since(b.list[1].at) > b.kept {
		_ = os.RemoveAll(b.list[0].dir)
		b.list = b.list[1:]
	}
}

// link links the files of an append-only file. The server creates files before it writes a manifest that names them,
// and removes files after that: so they are complete when the manifest is still the same at the end.
func (b *backup) link(aof string) error {
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(aof, manifest), filepath.Join(b.dir, manifest)); err != nil {
		return err
	}
	entries, err := os.ReadDir(aof)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(b.dir, e.Name())
		if e.Name() != manifest {
			err = errors.Join(err, os.Link(filepath.Join(aof, e.Name()), name))
		}
		if info, statErr := os.Stat(name); statErr == nil {
			b.sizes[e.Name()] = info.Size()
		}
	}
	was, wasErr := os.Stat(filepath.Join(b.dir, manifest))
	is, isErr := os.Stat(filepath.Join(aof, manifest))
	if err := errors.Join(err, wasErr, isErr); err != nil {
		return err
	}
	if !os.SameFile(was, is) {
		return errors.New("another manifest was written")
	}
	return nil
}

// Restore kills the server, restores the data that it had that long ago, or the oldest backup, and returns how long ago
// that was. Restart starts the server again.
func (b *Backups) Restore(age time.Duration) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.list) == 0 {
		return 0, errors.New("there is no backup yet")
	}
	from := b.list[0]
	for _, later := range b.list {
		if time.Since(later.at) >= age {
			from = later
		}
	}
	since := time.Since(from.at)
	b.redis.Lose()
	if err := os.Mkdir(b.redis.aof(), 0o700); err != nil {
		return 0, err
	}
	for name, size := range from.sizes {
		if err := copyStart(filepath.Join(b.redis.aof(), name), filepath.Join(from.dir, name), size); err != nil {
			return 0, fmt.Errorf("restore a backup: %w", err)
		}
	}
	return since, nil
}

func copyStart(to, from string, size int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, size)
	return errors.Join(err, out.Close())
}
