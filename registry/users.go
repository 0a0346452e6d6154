package registry

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"golang.org/x/crypto/bcrypt"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/database"
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
	Disabled  bool      `json:"disabled,omitempty"` // may not sign in

	SignedInAt time.Time `json:"-"` // the last time; zero: never
	Address    string    `json:"-"` // from where that was
}

const (
	minPassword  = 10
	maxPassword  = 72 // what bcrypt reads
	passwordCost = bcrypt.DefaultCost
)

func hashPassword(password string) (string, error) {
	if len(password) < minPassword || len(password) > maxPassword {
		return "", outOfRange("password", "has %d bytes; it needs %d to %d", len(password), minPassword, maxPassword)
	}
	h, err := bcrypt.GenerateFromPassword([]byte(password), passwordCost)
	if err != nil {
		return "", fmt.Errorf("hash the password: %w", err)
	}
	return string(h), nil
}

var userName = regexp.MustCompile(`^[a-z0-9][a-z0-9._@+-]{0,63}$`)

func validUserName(name string) error {
	if !userName.MatchString(name) {
		return malformed("name", "%.80q is not a user's name: 1 to 64 of a-z, 0-9 and . _ @ + -, beginning with a letter or digit", name)
	}
	return nil
}

func validRole(role Role) error {
	return oneOf("role", string(role), string(RoleAdmin), string(RoleOperator), string(RoleViewer))
}

// CreateUser registers a user of the web admin. Errors: *FieldError, ErrExists, ErrUnavailable.
func (r *Registry) CreateUser(ctx context.Context, actor, name, password string, role Role) error {
	if err := errors.Join(validUserName(name), validRole(role)); err != nil {
		return err
	}
	hash, err := hashPassword(password)
	if err != nil {
		return err
	}
	return r.change(ctx, actor, "create", "user/"+name, func(tx *gorm.DB, c *changed) error {
		if found, err := database.Find(tx, &userRow{}, "name", name); err != nil {
			return err
		} else if found {
			return fmt.Errorf("user %s: %w", name, ErrExists)
		}
		u := userRow{Name: name, PasswordHash: hash, Role: string(role), CreatedAt: database.Now()}
		c.after = u.user()
		return tx.Create(&u).Error
	})
}

// SetPassword gives a user another password. Errors: *FieldError, ErrNoUser, ErrUnavailable.
func (r *Registry) SetPassword(ctx context.Context, actor, name, password string) error {
	hash, err := hashPassword(password)
	if err != nil {
		return err
	}
	return r.changeUser(ctx, actor, "set password", name, func(tx *gorm.DB, u *userRow, c *changed) error {
		c.after = u.user()
		return tx.Model(u).UpdateColumn("password_hash", hash).Error
	})
}

// SetRole gives a user another role. Errors: *FieldError, ErrNoUser, ErrLastAdmin, ErrUnavailable.
func (r *Registry) SetRole(ctx context.Context, actor, name string, role Role) error {
	if err := validRole(role); err != nil {
		return err
	}
	return r.changeUser(ctx, actor, "set role", name, func(tx *gorm.DB, u *userRow, c *changed) error {
		if u.Role == string(role) {
			return errUnchanged
		}
		if err := anotherAdmin(tx, u); err != nil {
			return err
		}
		u.Role = string(role)
		c.after = u.user()
		return tx.Model(u).UpdateColumn("role", u.Role).Error
	})
}

// DeleteUser removes a user. Errors: ErrNoUser, ErrLastAdmin, ErrUnavailable.
func (r *Registry) DeleteUser(ctx context.Context, actor, name string) error {
	return r.changeUser(ctx, actor, "delete", name, func(tx *gorm.DB, u *userRow, _ *changed) error {
		if err := anotherAdmin(tx, u); err != nil {
			return err
		}
		if err := tx.Where("user = ?", name).Delete(&factorRow{}).Error; err != nil {
			return err
		}
		if err := tx.Where("user = ?", name).Delete(&accessRow{}).Error; err != nil {
			return err
		}
		return tx.Delete(u).Error
	})
}

// changeUser is change for a user that must be there.
func (r *Registry) changeUser(ctx context.Context, actor, action, name string, do func(*gorm.DB, *userRow, *changed) error) error {
	return r.change(ctx, actor, action, "user/"+name, func(tx *gorm.DB, c *changed) error {
		var u userRow
		if found, err := database.Find(tx, &u, "name", name); err != nil {
			return err
		} else if !found {
			return fmt.Errorf("%.80q: %w", name, ErrNoUser)
		}
		c.before = u.user()
		return do(tx, &u, c)
	})
}

// anotherAdmin is ErrLastAdmin when nobody could let anybody in any more without u.
func anotherAdmin(tx *gorm.DB, u *userRow) error {
	if u.Role != string(RoleAdmin) {
		return nil
	}
	access, err := accessOf(tx)
	if err != nil {
		return err
	}
	if access[u.Name].Disabled {
		return nil // lets nobody in
	}
	var admins []userRow
	if err := tx.Where("role = ? AND name <> ?", string(RoleAdmin), u.Name).Find(&admins).Error; err != nil {
		return err
	}
	others := len(slices.DeleteFunc(admins, func(o userRow) bool { return access[o.Name].Disabled }))
	if others == 0 {
		return fmt.Errorf("user %s: %w", u.Name, ErrLastAdmin)
	}
	return nil
}

// ListUsers lists the users by name.
func (r *Registry) ListUsers(ctx context.Context) ([]User, error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	var rows []userRow
	if err := r.db.Classify(r.db.Gorm(ctx).Order("name").Find(&rows).Error); err != nil {
		return nil, err
	}
	access, err := accessOf(r.db.Gorm(ctx))
	if err := r.db.Classify(err); err != nil {
		return nil, err
	}
	list := make([]User, len(rows))
	for i := range rows {
		list[i] = rows[i].user()
		access[list[i].Name].fill(&list[i])
	}
	return list, nil
}

// nobody is the hash of a password that nobody has. It is compared for unknown users, so that the answer takes as long as for known ones.
const nobody = "$2a$10$HhFVSyaSR4J.S/HlLkR5POcQNFLohlheGBn4Ut4QZRWWqRfMqGpM."

// CheckPassword returns the user, or ErrNoUser when name and password do not belong together.
func (r *Registry) CheckPassword(ctx context.Context, name, password string) (*User, error) {
	var row userRow
	found := false
	if validUserName(name) == nil { // MySQL takes "root " for "root", so that every number of spaces would have tries of its own
		var err error
		if found, err = r.look(ctx, &row, "name", name); err != nil {
			return nil, err
		}
	}
	hash := row.PasswordHash
	if !found {
		hash = nobody
	}
	wrong := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password))
	if wrong != nil || !found || len(password) > maxPassword {
		return nil, ErrNoUser
	}
	var access accessRow
	if _, err := r.look(ctx, &access, "user", name); err != nil {
		return nil, err
	}
	if access.Disabled {
		return nil, ErrNoUser
	}
	u := row.user()
	return &u, nil
}

// look takes one row, in the time that an operation has for itself: what hashing takes of a busy machine's is not the database's.
func (r *Registry) look(ctx context.Context, into any, column, value string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, database.Timeout)
	defer cancel()
	found, err = database.Find(r.db.Gorm(ctx), into, column, value)
	return found, r.db.Classify(err)
}
