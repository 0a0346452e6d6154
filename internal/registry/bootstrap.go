package registry

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/disk"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// Files that the first start writes to data_dir.
const (
	TokenFile    = "api-token"
	PasswordFile = "admin-password"
)

// firstAccess holds what the first start creates.
type firstAccess struct {
	dir             string
	token, password string
	files           []string // the files written so far
}

// Bootstrap creates an API token with all rights and the first user, once per installation, and writes both secrets to
// files in dir that only their owner may read. It returns the files it wrote. If several hosts start at once, only one
// of them does this. token is the token to create, which is not written to a file; "": a random one. createUser creates
// the user in the same transaction and returns the password to write, or "".
//
// The files are written before the database commits. A crash in between may leave useless files, which the next start
// replaces, but never a token or user whose secret is lost.
func (r *Registry) Bootstrap(
	ctx context.Context, dir, token string, createUser func(tx *gorm.DB) (password string, err error),
) (created []string, err error) {
	first := &firstAccess{dir: dir}
	err = r.Change(ctx, "first start", "bootstrap", "access", func(tx *gorm.DB, c *Changed) error {
		if err := doOnce(tx, "bootstrapped"); err != nil {
			return err
		}
		c.After = []string{"token/first", "user/admin"}
		if err := first.createToken(tx, token); err != nil {
			return err
		}
		if first.password, err = createUser(tx); err != nil {
			return err
		}
		return first.write()
	})
	if err == nil {
		return first.files, nil
	}
	if !r.mayBeStored(first.token) {
		first.remove()
	}
	return nil, fmt.Errorf("create first token and user: %w", err)
}

func (f *firstAccess) createToken(tx *gorm.DB, token string) error {
	if token == "" {
		f.token = newSecret("wk_")
		token = f.token
	}
	return tx.Create(newTokenRow(&Token{
		Name: "first", Hash: HashToken(token), Rights: Rights, Topics: []string{"*"}, CreatedAt: database.Now(),
	})).Error
}

func (f *firstAccess) write() error {
	for _, file := range []struct{ name, secret string }{{TokenFile, f.token}, {PasswordFile, f.password}} {
		if file.secret == "" {
			continue
		}
		path := filepath.Join(f.dir, file.name)
		f.files = append(f.files, path)
		if err := writeSecret(path, file.secret); err != nil {
			return Malformed("data_dir", "field.data_dir", err)
		}
	}
	return nil
}

func (f *firstAccess) remove() {
	for _, path := range f.files {
		_ = os.Remove(path)
	}
}

// mayBeStored reports whether the database may have committed the token although it returned an error, because the
// connection broke after the commit. In that case the files are kept. If they are useless, the next start replaces
// them.
func (r *Registry) mayBeStored(token string) bool {
	if token == "" {
		return false
	}
	found, err := r.db.Find(context.Background(), &tokenRow{}, "hash", HashToken(token))
	return found || err != nil
}

func writeSecret(path, secret string) error {
	err := disk.Replace(path, func(f *os.File) error {
		_, err := f.WriteString(secret + "\n")
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
