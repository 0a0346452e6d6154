package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"golang.org/x/crypto/bcrypt"
	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// Role defines what a user of the web admin may do.
type Role string

// Roles of users.
const (
	RoleAdmin    Role = "admin"
	RoleOperator Role = "operator"
	RoleViewer   Role = "viewer"
)

// Roles lists all roles. Each includes the rights of those before it.
var Roles = []Role{RoleViewer, RoleOperator, RoleAdmin}

// User is a person who may sign in to the web admin.
type User struct {
	Name      string    `json:"name" gorm:"primaryKey"`
	Role      Role      `json:"role"`
	CreatedAt time.Time `json:"created_at"`

	// These fields come from accessRow, and are set only if that is read, too.
	Disabled   bool      `json:"disabled,omitempty" gorm:"->"` // may not sign in
	SignedInAt time.Time `json:"-" gorm:"->"`                  // the last sign-in; zero: never
	Address    string    `json:"-" gorm:"->"`                  // address of the last sign-in
}

// Errors concerning users.
var (
	ErrNoUser    = database.NewRefusal("no such user")
	ErrLastAdmin = database.NewRefusal("the last user with the role admin: give the role to another user first")
)

// Store stores users. Its methods may be called from any goroutine.
type Store struct {
	registry *registry.Registry
	db       *database.DB
}

// NewStore returns the store in the database of a registry.
func NewStore(r *registry.Registry) *Store { return &Store{r, r.DB()} }

type userRow struct {
	User         `gorm:"embedded"`
	PasswordHash string
}

func (userRow) TableName() string { return "users" }

var userName = regexp.MustCompile(`^[a-z0-9][a-z0-9._@+-]{0,63}$`)

func validUserName(name string) error {
	if userName.MatchString(name) {
		return nil
	}
	return registry.Malformed("name", "field.user_name", name)
}

func validRole(role Role) error {
	if slices.Contains(Roles, role) {
		return nil
	}
	return registry.OutOfRange("role", "field.one_of", role, "admin, operator, viewer")
}

// CreateUser adds a user. Errors: *registry.FieldError, ErrUnavailable.
func (s *Store) CreateUser(ctx context.Context, actor, name, password string, role Role) error {
	hash, err := hashPassword(password)
	if err := errors.Join(validUserName(name), validRole(role), err); err != nil {
		return err
	}
	return s.registry.Change(ctx, actor, "create", "user/"+name, func(tx *gorm.DB, c *registry.Changed) error {
		if found, err := database.Find(tx, &userRow{}, "name", name); err != nil {
			return err
		} else if found {
			return registry.Malformed("name", "field.exists")
		}
		u := userRow{User{Name: name, Role: role, CreatedAt: database.Now()}, hash}
		c.After = u.User
		return tx.Create(&u).Error
	})
}

// CreateFirst returns a function that adds the user admin in the transaction of the first start, with this password or,
// if it is empty, a random one, which the function returns. If the user admin exists, it does nothing.
func CreateFirst(password string) func(tx *gorm.DB) (random string, err error) {
	return func(tx *gorm.DB) (random string, err error) {
		if found, err := database.Find(tx, &userRow{}, "name", "admin"); found || err != nil {
			return "", err
		}
		if password == "" {
			b := make([]byte, 18)
			_, _ = rand.Read(b) // never fails (crypto/rand)
			random = base64.RawURLEncoding.EncodeToString(b)
		}
		hash, err := hashPassword(cmp.Or(random, password))
		if err != nil {
			return "", err
		}
		return random, tx.Create(&userRow{User{Name: "admin", Role: RoleAdmin, CreatedAt: database.Now()}, hash}).Error
	}
}

// SetPassword changes a user's password. Errors: *registry.FieldError, ErrNoUser, ErrUnavailable.
func (s *Store) SetPassword(ctx context.Context, actor, name, password string) error {
	hash, err := hashPassword(password)
	if err != nil {
		return err
	}
	return s.change(ctx, actor, "set password", name, func(tx *gorm.DB, u *userRow, c *registry.Changed) error {
		c.After = u.User
		return tx.Model(u).UpdateColumn("password_hash", hash).Error
	})
}

// SetRole changes a user's role. Errors: *registry.FieldError, ErrNoUser, ErrLastAdmin, ErrUnavailable.
func (s *Store) SetRole(ctx context.Context, actor, name string, role Role) error {
	if err := validRole(role); err != nil {
		return err
	}
	return s.change(ctx, actor, "set role", name, func(tx *gorm.DB, u *userRow, c *registry.Changed) error {
		if u.Role == role {
			return registry.ErrUnchanged
		}
		if err := requireOtherAdmin(tx, u); err != nil {
			return err
		}
		u.Role = role
		c.After = u.User
		return tx.Model(u).UpdateColumn("role", u.Role).Error
	})
}

// DeleteUser deletes a user. Errors: ErrNoUser, ErrLastAdmin, ErrUnavailable.
func (s *Store) DeleteUser(ctx context.Context, actor, name string) error {
	return s.change(ctx, actor, "delete", name, func(tx *gorm.DB, u *userRow, _ *registry.Changed) error {
		if err := requireOtherAdmin(tx, u); err != nil {
			return err
		}
		if err := tx.Delete(&factorRow{User: name}).Error; err != nil {
			return err
		}
		if err := tx.Delete(&accessRow{User: name}).Error; err != nil {
			return err
		}
		return tx.Delete(u).Error
	})
}

// change calls registry.Change for an existing user.
func (s *Store) change(
	ctx context.Context, actor, action, name string, do func(*gorm.DB, *userRow, *registry.Changed) error,
) error {
	return s.registry.Change(ctx, actor, action, "user/"+name, func(tx *gorm.DB, c *registry.Changed) error {
		var row userRow
		if err := database.MustFind(tx, &row, "name", name, fmt.Errorf("%.80q: %w", name, ErrNoUser)); err != nil {
			return err
		}
		c.Before = row.User
		return do(tx, &row, c)
	})
}

// requireOtherAdmin returns ErrLastAdmin if nobody else with the role admin can sign in.
func requireOtherAdmin(tx *gorm.DB, u *userRow) error {
	var admins []userRow
	if err := withAccess(tx).Where("role = ? AND disabled IS NOT TRUE", RoleAdmin).Find(&admins).Error; err != nil {
		return err
	}
	if len(admins) == 1 && admins[0].Name == u.Name {
		return fmt.Errorf("user %s: %w", u.Name, ErrLastAdmin)
	}
	return nil
}

// ListUsers returns the users by name.
func (s *Store) ListUsers(ctx context.Context) ([]User, error) {
	rows, err := database.List[userRow](ctx, s.db, func(tx *gorm.DB) *gorm.DB { return withAccess(tx).Order("name") })
	list := make([]User, len(rows))
	for i := range rows {
		list[i] = rows[i].User
	}
	return list, err
}

const (
	minPassword = 10
	maxPassword = 72 // the bytes that bcrypt reads
)

// PasswordCost is the cost of new hashes. Tests lower it: with the race detector, a hash takes a second of CPU.
var PasswordCost = bcrypt.DefaultCost

func hashPassword(password string) (string, error) {
	if len(password) < minPassword || len(password) > maxPassword {
		return "", registry.OutOfRange("password", "field.password_bytes", len(password), minPassword, maxPassword)
	}
	h, err := bcrypt.GenerateFromPassword([]byte(password), PasswordCost)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	return string(h), nil
}

// unknownUserHash is compared for unknown users, so that checking them takes as long as for known ones. It has the
// default cost, and nobody has its password.
const unknownUserHash = "$2a$10$HhFVSyaSR4J.S/HlLkR5POcQNFLohlheGBn4Ut4QZRWWqRfMqGpM."

// CheckPassword returns the user. It returns ErrNoUser if the password is wrong, or the user is unknown or disabled.
func (s *Store) CheckPassword(ctx context.Context, name, password string) (*User, error) {
	row := userRow{PasswordHash: unknownUserHash}
	found := false
	// MySQL treats "root " as "root", so spaces would circumvent the login limits of a name.
	if validUserName(name) == nil {
		err := s.db.Do(ctx, func(tx *gorm.DB) (err error) { // cancelled before the hash is compared, which takes long
			found, err = database.Find(withAccess(tx), &row, "name", name)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	wrong := bcrypt.CompareHashAndPassword([]byte(row.PasswordHash), []byte(password))
	if wrong != nil || !found || row.Disabled || len(password) > maxPassword {
		return nil, ErrNoUser
	}
	return &row.User, nil
}
