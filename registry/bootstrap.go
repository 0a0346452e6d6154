package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/database"
)

// Files of the first start, in data_dir.
const (
	TokenFile    = "api-token"
	PasswordFile = "admin-password"
)

// firstAccess is what the first start makes.
type firstAccess struct {
	dir             string
	token, password string
	passwordHash    string
	files           []string // those that were written
}

// Bootstrap makes, once for an installation, an API token with all rights and the admin user, and leaves both in files of dir that only their
// owner may read. It returns the files it made. Of several hosts that start at once one does it.
//
// The files are written before the database keeps what is in them: a crash in between leaves files of no use, which the next start
// replaces, and never a token or user whose secret is lost.
func (r *Registry) Bootstrap(ctx context.Context, dir string) (created []string, err error) {
	first := &firstAccess{dir: dir}
	err = r.change(ctx, "first start", "bootstrap", "access", func(tx *gorm.DB, c *changed) error {
		if err := doOnce(tx, "bootstrapped"); err != nil {
			return err
		}
		c.after = []string{"token/first", "user/admin"}
		if err := first.store(tx); err != nil {
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
	return nil, fmt.Errorf("make the first token and user: %w", err)
}

func (f *firstAccess) store(tx *gorm.DB) (err error) {
	f.token, f.password = newSecret("wk_"), newSecret("")[:24]
	if f.passwordHash, err = hashPassword(f.password); err != nil {
		return err
	}
	rights := []Right{RightPush, RightRead, RightManage}
	if err := tx.Create(newTokenRow(&Token{Name: "first", Hash: HashToken(f.token), Rights: rights, Topics: []string{"*"}, CreatedAt: database.Now()})).Error; err != nil {
		return err
	}
	// A user admin that somebody made by hand before is left alone, and so needs no file.
	if found, err := database.Find(tx, &userRow{}, "name", "admin"); found || err != nil {
		f.password = ""
		return err
	}
	return tx.Create(&userRow{"admin", f.passwordHash, string(RoleAdmin), database.Now()}).Error
}

func (f *firstAccess) write() error {
	for _, file := range []struct{ name, secret string }{{TokenFile, f.token}, {PasswordFile, f.password}} {
		if file.secret == "" {
			continue
		}
		path := filepath.Join(f.dir, file.name)
		f.files = append(f.files, path)
		if err := writeSecret(path, file.secret); err != nil {
			return &FieldError{Field: "data_dir", Detail: err.Error() + "; give the directory to this user, or set data_dir to another"}
		}
	}
	return syncDir(f.dir)
}

func (f *firstAccess) remove() {
	for _, path := range f.files {
		_ = os.Remove(path)
	}
}

// mayBeStored says whether the database may have kept the token although its answer was an error: the connection may have ended after
// the commit. Then the files stay; a start that finds them of no use replaces them.
func (r *Registry) mayBeStored(token string) bool {
	if token == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), database.Timeout)
	defer cancel()
	found, err := database.Find(r.db.Gorm(ctx), &tokenRow{}, "hash", HashToken(token))
	return found || err != nil
}

func writeSecret(path, secret string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = f.Chmod(0o600) // of a file that was there, before the secret is in it
	if err == nil {
		_, err = f.WriteString(secret + "\n")
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
