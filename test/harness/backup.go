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
)

// Backups are earlier states of a server's append-only file. A file that is only appended to contains all of its
// earlier states, so a backup is a hard link to each file, and its size at that time.
type Backups struct {
	redis *Redis
	dir   string
	kept  time.Duration

	mu   sync.Mutex
	list []backup // the oldest first
	dirs int      // how many were made
}

type backup struct {
	at    time.Time
	dir   string           // of the links; later backups of the same files share it
	files map[string]int64 // sizes by name
}

const backupEvery = 250 * time.Millisecond

// KeepBackups makes a backup several times a second until the test ends, and removes those that are older than kept.
func (r *Redis) KeepBackups(kept time.Duration) *Backups {
	r.t.Helper()
	b := &Backups{redis: r, dir: newDir(r.t, "redis-backups"), kept: kept}
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

// Restore kills the server, restores the data that it held that long ago, or the oldest backup, and returns how long
// ago that was. Restart starts the server again.
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
	aof := b.redis.aof()
	if err := os.Mkdir(aof, 0o700); err != nil {
		return 0, err
	}
	for name, size := range from.files {
		if err := copyStart(filepath.Join(aof, name), filepath.Join(from.dir, name), size); err != nil {
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

// add makes a backup, unless files are created or removed at that moment.
func (b *Backups) add() {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := backup{at: time.Now()}
	if last := len(b.list) - 1; last >= 0 {
		next.dir = b.list[last].dir
	}
	if next.dir == "" || !sameFiles(next.dir, b.redis.aof()) {
		b.dirs++
		next.dir = filepath.Join(b.dir, strconv.Itoa(b.dirs))
		if os.Mkdir(next.dir, 0o700) != nil || !linkFiles(next.dir, b.redis.aof()) || !sameFiles(next.dir, b.redis.aof()) {
			_ = os.RemoveAll(next.dir) // the next backup will have them
			return
		}
	}
	var err error
	if next.files, err = sizes(next.dir); err != nil || len(next.files) == 0 {
		return
	}
	b.list = append(b.list, next)
	for len(b.list) > 1 && time.Since(b.list[1].at) > b.kept {
		if b.list[0].dir != b.list[1].dir {
			_ = os.RemoveAll(b.list[0].dir) // removed at the latest with the test
		}
		b.list = b.list[1:]
	}
}

func linkFiles(to, from string) bool {
	files, err := sizes(from)
	for name := range files {
		err = errors.Join(err, os.Link(filepath.Join(from, name), filepath.Join(to, name)))
	}
	return err == nil
}

// sameFiles reports whether two directories have links to the same files.
func sameFiles(a, b string) bool {
	as, err := sizes(a)
	bs, errOfB := sizes(b)
	if err != nil || errOfB != nil || len(as) != len(bs) {
		return false
	}
	for name := range as {
		inA, err := os.Stat(filepath.Join(a, name))
		inB, errOfB := os.Stat(filepath.Join(b, name))
		if err != nil || errOfB != nil || !os.SameFile(inA, inB) {
			return false
		}
	}
	return true
}

func sizes(dir string) (map[string]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		files[e.Name()] = info.Size()
	}
	return files, nil
}
