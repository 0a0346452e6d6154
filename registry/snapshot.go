package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// keepEvery limits how often the snapshot is written to its file: many changes cost one write.
const keepEvery = time.Second

// keep writes the last snapshot to its file unless it is already there.
func (r *Registry) keep() (tried bool) {
	r.mu.Lock()
	unkept := r.unkept
	r.unkept = false
	r.mu.Unlock()
	if !unkept {
		return false
	}
	s := r.Snapshot()
	if laterSnapshot(r.opts.SnapshotFile, s.readAt) {
		return true // another process of this host has read the database since
	}
	err := writeSnapshot(r.opts.SnapshotFile, s)
	r.mu.Lock()
	failedBefore := r.keepFailed
	r.keepFailed = err != nil
	r.unkept = r.unkept || err != nil // until it can be written
	r.mu.Unlock()
	if err != nil && !failedBefore {
		r.opts.Logger.Warn("the registry's snapshot cannot be kept; until it can, a restart without the database begins "+
			"with an older one", "file", r.opts.SnapshotFile, "error", err)
	}
	return true
}

// diskSnapshot contains the topics' secrets, so that signing goes on after a restart without the database.
type diskSnapshot struct {
	*Snapshot
	Topics map[string]storedTopic `json:"topics"`
}

// writeSnapshot replaces the file in one step, readable by its owner only. After a power failure it is the old or the
// new one.
func writeSnapshot(file string, s *Snapshot) error {
	if file == "" {
		return nil
	}
	b, err := encodeSnapshot(s)
	if err == nil {
		err = replaceFile(file, b, s.readAt)
	}
	if err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

func replaceFile(file string, b []byte, modified time.Time) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+leftoverPattern) // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil && !modified.IsZero() {
		err = os.Chtimes(f.Name(), time.Time{}, modified)
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return syncDir(filepath.Dir(file))
}

// laterSnapshot reports whether the file holds what was read from the database after a time. The processes of a host
// share the file, and each writes it when it ends: one that has not seen the last change must not undo it. The time
// is the file's modification time, so that nobody needs to read the file.
func laterSnapshot(file string, at time.Time) bool {
	info, err := os.Stat(file)
	return err == nil && info.ModTime().After(at)
}

// leftoverPattern matches files that a process writes before it renames them.
const leftoverPattern = ".*.new"

// removeLeftovers removes files of processes that were killed while they wrote. It leaves recent ones: several
// processes may be writing.
func removeLeftovers(file string) {
	if file == "" {
		return
	}
	files, _ := filepath.Glob(file + leftoverPattern)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(f)
		}
	}
}

// syncDir makes a new or renamed file of a directory survive a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

func encodeSnapshot(s *Snapshot) ([]byte, error) {
	d := diskSnapshot{Snapshot: s, Topics: make(map[string]storedTopic, len(s.Topics))}
	for name, t := range s.Topics {
		d.Topics[name] = storedTopic{t, t.Secrets}
	}
	return json.Marshal(d)
}

func readSnapshot(file string) (*Snapshot, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	s, err := decodeSnapshot(b)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot %s: %w", file, err)
	}
	return s, nil
}

func decodeSnapshot(b []byte) (*Snapshot, error) {
	d := diskSnapshot{Snapshot: &Snapshot{}}
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, err
	}
	s := d.Snapshot
	if s == nil || s.Revision == 0 {
		return nil, errors.New("not a snapshot of a registry")
	}
	s.Topics = make(map[string]*Topic, len(d.Topics))
	for name, st := range d.Topics {
		if st.Topic == nil || st.Name != name {
			return nil, fmt.Errorf("topic %.80q is damaged", name)
		}
		st.Topic.Secrets = st.Secrets
		st.Durability = st.Durability.stored()
		s.Topics[name] = st.Topic
	}
	for hash, t := range s.Tokens {
		if t == nil || t.Hash != hash {
			return nil, errors.New("a token is damaged")
		}
	}
	return s, nil
}
