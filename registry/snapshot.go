package registry

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// diskSnapshot keeps the topics' secrets too, so that signing goes on after a restart without the database.
type diskSnapshot struct {
	*Snapshot
	Topics map[string]storedTopic `json:"topics"`
}

// writeSnapshot replaces the file in one step, readable by its owner only. After a power failure it is the old one or the new one.
func writeSnapshot(file string, s *Snapshot) error {
	if file == "" {
		return nil
	}
	b, err := encodeSnapshot(s)
	if err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+leftover) // 0600
	if err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil && !s.readAt.IsZero() {
		err = os.Chtimes(f.Name(), time.Time{}, s.readAt)
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return syncDir(filepath.Dir(file))
}

// laterSnapshot says whether the file holds what was read from the database later than at. The processes of a host share the file, and
// each writes it when it ends: one that has not heard of the last change must not undo it. The time is the file's own, so that nobody
// needs to read the file.
func laterSnapshot(file string, at time.Time) bool {
	info, err := os.Stat(file)
	return err == nil && info.ModTime().After(at)
}

// leftover is the pattern of files that a process writes before it renames them.
const leftover = ".*.new"

// removeLeftovers removes what processes left that were killed while they wrote. Several write beside each other, so only what is old.
func removeLeftovers(file string) {
	if file == "" {
		return
	}
	files, _ := filepath.Glob(file + leftover)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(f)
		}
	}
}

// syncDir makes what was renamed or made in a directory survive a power failure.
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
		return nil, errors.New("it is no snapshot of a registry")
	}
	s.Topics = make(map[string]*Topic, len(d.Topics))
	for name, st := range d.Topics {
		if st.Topic == nil || st.Name != name {
			return nil, fmt.Errorf("topic %.80q is damaged", name)
		}
		st.Topic.Secrets = st.Secrets
		st.Durability = cmp.Or(st.Durability, DurabilityMemory) // a file of an older version does not have it
		s.Topics[name] = st.Topic
	}
	for hash, t := range s.Tokens {
		if t == nil || t.Hash != hash {
			return nil, errors.New("a token is damaged")
		}
	}
	return s, nil
}

// HashToken is how a token is known to the registry.
func HashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Token finds the token that a client sent. The time it takes tells nothing about stored ones: they are looked up by hash, and the
// hash is compared in constant time.
func (s *Snapshot) Token(secret string) (*Token, bool) {
	sum := sha256.Sum256([]byte(secret))
	var h [2 * sha256.Size]byte // as HashToken writes it
	hex.Encode(h[:], sum[:])
	t, ok := s.Tokens[string(h[:])]
	if !ok || subtle.ConstantTimeCompare([]byte(t.Hash), h[:]) != 1 {
		return nil, false
	}
	return t, true
}
