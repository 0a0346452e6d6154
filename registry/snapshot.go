package registry

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// diskSnapshot keeps the topics' secrets too, so that signing goes on after a restart without the database.
type diskSnapshot struct {
	*Snapshot
	Topics map[string]storedTopic `json:"topics"`
}

// writeSnapshot replaces the file in one step, readable by its owner only.
func writeSnapshot(file string, s *Snapshot) error {
	if file == "" {
		return nil
	}
	d := diskSnapshot{Snapshot: s, Topics: make(map[string]storedTopic, len(s.Topics))}
	for name, t := range s.Topics {
		d.Topics[name] = storedTopic{t, t.Secrets}
	}
	b, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // 0600
	if err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

func readSnapshot(file string) (*Snapshot, error) {
	if file == "" {
		return nil, os.ErrNotExist
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	d := diskSnapshot{Snapshot: &Snapshot{}}
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("read the snapshot %s: %w", file, err)
	}
	s := d.Snapshot
	s.Topics = make(map[string]*Topic, len(d.Topics))
	for name, st := range d.Topics {
		st.Topic.Secrets = st.Secrets
		s.Topics[name] = st.Topic
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
	h := HashToken(secret)
	t, ok := s.Tokens[h]
	if !ok || subtle.ConstantTimeCompare([]byte(t.Hash), []byte(h)) != 1 {
		return nil, false
	}
	return t, true
}

var (
	dsnPassword = regexp.MustCompile(`^(mysql://[^:@/]*):.*@`)
	urlPassword = regexp.MustCompile(`^([a-z+]+://[^:@/]*):.*@`)
)

// MaskDSN hides the password of a registry's address.
func MaskDSN(dsn string) string { return dsnPassword.ReplaceAllString(dsn, "$1:***@") }

// MaskURL hides the password of a shard's address.
func MaskURL(u string) string { return urlPassword.ReplaceAllString(u, "$1:***@") }
