package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
)

const identityName = ".identity"

// Identity returns the name of a journal, which stays when its host is renamed or its directory moves. The first call
// creates it.
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
	return disk.Create(path, rand.Text()+"\n")
}

// Lock waits until no other process holds the journal's lock of that name. unlock, or the end of the process, releases
// it.
func Lock(ctx context.Context, dir, name string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "."+name+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		err := disk.Flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
}
