package registry

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/bcrypt"
	"gorm.io/gorm"
)

// Role is what a user of the web admin may do.
type Role string

// The roles of users.
const (
	RoleAdmin    Role = "admin"
	RoleOperator Role = "operator"
	RoleViewer   Role = "viewer"
)

// User is somebody who may sign in to the web admin.
type User struct {
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	CreatedAt time.Time `json:"created_at"`
}

// newSecret is 32 random bytes in text behind a prefix.
func newSecret(prefix string) string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return prefix + base64.RawURLEncoding.EncodeToString(b)
}

// CreateToken makes an API token and returns it; it cannot be read again.
func (r *Registry) CreateToken(ctx context.Context, actor, name string, rights []Right, topics []string) (secret string, t *Token, err error) {
	if err := validToken(name, rights, topics); err != nil {
		return "", nil, err
	}
	secret = newSecret("wk_")
	t = &Token{Name: name, Hash: HashToken(secret), Rights: rights, Topics: topics, CreatedAt: time.Now().UTC().Truncate(time.Microsecond)}
	err = r.change(ctx, actor, "create", "token/"+name, func(tx *gorm.DB) (any, any, error) {
		row := newTokenRow(t)
		err := tx.Create(row).Error
		t.ID = row.ID
		return nil, t, err
	})
	if err != nil {
		return "", nil, err
	}
	return secret, t, nil
}

func newTokenRow(t *Token) *tokenRow {
	row := &tokenRow{Name: t.Name, Hash: t.Hash, Rights: joinRights(t.Rights), CreatedAt: t.CreatedAt}
	for i, p := range t.Topics {
		if i > 0 {
			row.Topics += "\n"
		}
		row.Topics += p
	}
	return row
}

func validToken(name string, rights []Right, topics []string) error {
	if name == "" || len(rights) == 0 || len(topics) == 0 {
		return malformed("token", "it needs a name, at least one right and at least one topic pattern")
	}
	errs := []error{text("name", name, 100)}
	for _, x := range rights {
		errs = append(errs, oneOf("rights", string(x), string(RightPush), string(RightRead), string(RightManage)))
	}
	for _, p := range topics {
		errs = append(errs, ValidTopicPattern(p))
	}
	return errors.Join(errs...)
}

// RevokeToken ends a token everywhere within a second. Errors: ErrNoToken, ErrUnavailable.
func (r *Registry) RevokeToken(ctx context.Context, actor string, id uint64) error {
	return r.change(ctx, actor, "revoke", fmt.Sprint("token/", id), func(tx *gorm.DB) (any, any, error) {
		var row tokenRow
		if err := tx.Where("id = ?", id).Take(&row).Error; missing(err) {
			return nil, nil, fmt.Errorf("%d: %w", id, ErrNoToken)
		} else if err != nil {
			return nil, nil, err
		}
		return row.token(), nil, tx.Delete(&row).Error
	})
}

const minPassword = 10

func hashPassword(password string) (string, error) {
	if len(password) < minPassword || len(password) > 72 {
		return "", outOfRange("password", "has not %d to 72 bytes", minPassword)
	}
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return "", fmt.Errorf("hash the password: %w", err)
	}
	return string(h), nil
}

// CreateUser registers a user of the web admin. Errors: *FieldError, ErrExists, ErrUnavailable.
func (r *Registry) CreateUser(ctx context.Context, actor, name, password string, role Role) error {
	err := errors.Join(ValidTopicName(name), oneOf("role", string(role), string(RoleAdmin), string(RoleOperator), string(RoleViewer)))
	if err != nil {
		return err
	}
	hash, err := hashPassword(password)
	if err != nil {
		return err
	}
	return r.change(ctx, actor, "create", "user/"+name, func(tx *gorm.DB) (any, any, error) {
		u := userRow{Name: name, PasswordHash: hash, Role: string(role), CreatedAt: time.Now().UTC()}
		if err := tx.Where("name = ?", name).Take(&userRow{}).Error; err == nil {
			return nil, nil, fmt.Errorf("user %s: %w", name, ErrExists)
		} else if !missing(err) {
			return nil, nil, err
		}
		return nil, User{name, role, u.CreatedAt}, tx.Create(&u).Error
	})
}

// nobody's hash is compared for unknown users, so that the answer takes as long as for known ones.
var nobody, _ = bcrypt.GenerateFromPassword([]byte("nobody has this password"), bcrypt.DefaultCost)

// CheckPassword returns the user, or ErrNoUser when name and password do not belong together.
func (r *Registry) CheckPassword(ctx context.Context, name, password string) (*User, error) {
	var row userRow
	err := r.db.WithContext(ctx).Where("name = ?", name).Take(&row).Error
	if err != nil && !missing(err) {
		return nil, r.wrap(err)
	}
	hash := []byte(row.PasswordHash)
	if err != nil {
		hash = nobody
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || err != nil {
		return nil, ErrNoUser
	}
	return &User{row.Name, Role(row.Role), row.CreatedAt.UTC()}, nil
}

// Files of the first start, in data_dir.
const (
	TokenFile    = "api-token"
	PasswordFile = "admin-password"
)

// Bootstrap makes, once for an installation, an API token with all rights and the admin user, and leaves both in files of dir that only their
// owner may read. It returns the files it made. Of several hosts that start at once one does it.
func (r *Registry) Bootstrap(ctx context.Context, dir string) (created []string, err error) {
	token, password := newSecret("wk_"), newSecret("")[:24]
	hash, err := hashPassword(password)
	if err != nil {
		return nil, err
	}
	err = r.change(ctx, "first start", "bootstrap", "access", func(tx *gorm.DB) (any, any, error) {
		res := tx.Model(&revisionRow{}).Where("id = 1 AND bootstrapped = 0").UpdateColumn("bootstrapped", 1)
		if res.Error != nil || res.RowsAffected == 0 {
			return nil, nil, errors.Join(res.Error, errDone)
		}
		now := time.Now().UTC()
		t := &Token{Name: "first", Hash: HashToken(token), Rights: []Right{RightPush, RightRead, RightManage}, Topics: []string{"*"}, CreatedAt: now}
		if err := errors.Join(tx.Create(newTokenRow(t)).Error, tx.Create(&userRow{"admin", hash, string(RoleAdmin), now}).Error); err != nil {
			return nil, nil, err
		}
		// The files come first: a crash in between leaves files of no use, and the next start makes new ones.
		for file, secret := range map[string]string{TokenFile: token, PasswordFile: password} {
			path := filepath.Join(dir, file)
			if err := writeSecret(path, secret); err != nil {
				return nil, nil, &FieldError{Field: "data_dir", Detail: err.Error()}
			}
			created = append(created, path)
		}
		return nil, []string{"token/first", "user/admin"}, nil
	})
	if err != nil {
		for _, f := range created {
			_ = os.Remove(f)
		}
		return nil, fmt.Errorf("make the first token and user: %w", err)
	}
	return created, nil
}

func writeSecret(path, secret string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.WriteString(secret + "\n")
	if err := errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
