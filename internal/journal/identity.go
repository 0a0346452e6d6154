package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wakecall/wakecall/internal/disk"
)

const (
	identityName = ".identity"
	randomPart   = 8 // letters of an identity
)

// Identity returns the name of a journal, which stays when its host is renamed or its directory moves. The first call
// creates it: the host's name at that time, and a random part.
func Identity(dir string) (string, error) {
	path := filepath.Join(dir, identityName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeIdentity(dir, path)
		if err == nil {
			b, err = os.ReadFile(path)
		}
	}
	id := strings.TrimSpace(string(b))
	if err == nil && id == "" {
		err = fmt.Errorf("%s is empty: remove it", path)
	}
	if err != nil {
		return "", fmt.Errorf("reading the journal's identity: %w", err)
	}
	return id, nil
}

func makeIdentity(dir, path string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil || strings.ContainsAny(name, " \n") {
		name = "host"
	}
	return disk.Create(path, name+"-"+rand.Text()[:randomPart]+"\n")
}
