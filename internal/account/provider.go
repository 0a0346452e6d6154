package account

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
)

// providerPrefix begins the names of users whom an identity provider signs in. No other user's name has a colon.
const providerPrefix = "oidc:"

// ByProvider reports whether an identity provider signs the user in.
func (u *User) ByProvider() bool { return strings.HasPrefix(u.Name, providerPrefix) }

// ProviderUser is a person whom an identity provider has signed in. Issuer and subject identify them.
type ProviderUser struct {
	Name       string    `json:"name" gorm:"primaryKey"` // given at the first sign-in
	Issuer     string    `json:"issuer"`
	Subject    string    `json:"subject"`
	Role       Role      `json:"role"`
	RoleGroup  string    `json:"group"` // the group that has the role
	CreatedAt  time.Time `json:"created_at"`
	SignedInAt time.Time `json:"-"`
	Address    string    `json:"-"` // from where that was
}

// TableName implements gorm's Tabler.
func (ProviderUser) TableName() string { return "provider_users" }

// User returns the user of the web admin.
func (u *ProviderUser) User() *User {
	return &User{Name: u.Name, Role: u.Role, CreatedAt: u.CreatedAt, SignedInAt: u.SignedInAt, Address: u.Address}
}

// ListProviderUsers returns the people whom a provider has signed in, by name.
func (s *Store) ListProviderUsers(ctx context.Context, issuer string) ([]ProviderUser, error) {
	return database.List[ProviderUser](ctx, s.db, func(tx *gorm.DB) *gorm.DB {
		return tx.Where("issuer = ?", issuer).Order("name")
	})
}

// SignInByProvider stores the sign-in of a person, and returns the user. u.Name is the name that a new user gets,
// unless somebody else has it. The first sign-in and changes of the role are audited. Errors: ErrUnavailable.
func (s *Store) SignInByProvider(ctx context.Context, u ProviderUser) (*User, error) {
	u.SignedInAt, u.RoleGroup = database.Now(), database.Clip(u.RoleGroup, 255)
	before, err := s.findProviderUser(ctx, &u)
	if err != nil {
		return nil, fmt.Errorf("find the user of %s: %w", u.Issuer, err)
	}
	switch {
	case before == nil:
		err = s.createProviderUser(ctx, &u)
	case before.Role != u.Role || before.RoleGroup != u.RoleGroup:
		err = s.changeProviderUser(ctx, before, &u)
	default:
		err = s.db.Do(ctx, func(tx *gorm.DB) error { return tx.Save(&u).Error })
	}
	if err != nil {
		return nil, fmt.Errorf("store sign-in of %s: %w", u.Name, err)
	}
	return u.User(), nil
}

// findProviderUser returns what is stored about a person, nil if nothing is. It sets their name.
func (s *Store) findProviderUser(ctx context.Context, u *ProviderUser) (before *ProviderUser, err error) {
	var known, other []ProviderUser
	u.Name = providerName(u.Name)
	err = s.db.Do(ctx, func(tx *gorm.DB) error {
		return errors.Join(
			tx.Where("issuer = ? AND subject = ?", u.Issuer, u.Subject).Limit(1).Find(&known).Error,
			tx.Where("name = ?", u.Name).Limit(1).Find(&other).Error)
	})
	if err != nil {
		return nil, err
	}
	if len(known) > 0 {
		u.Name, u.CreatedAt = known[0].Name, known[0].CreatedAt
		return &known[0], nil
	}
	u.CreatedAt = u.SignedInAt
	if len(other) > 0 {
		sum := sha256.Sum256([]byte(u.Issuer + "\n" + u.Subject))
		u.Name += "~" + hex.EncodeToString(sum[:4])
	}
	return nil, nil
}

const longestProviderName = 64 // characters, without the number of somebody with the same name

// providerName returns a name for the audit trail.
func providerName(name string) string {
	name = strings.Join(strings.Fields(name), " ")
	return providerPrefix + strings.TrimSpace(database.Clip(name, longestProviderName))
}

func (s *Store) createProviderUser(ctx context.Context, u *ProviderUser) error {
	object := "user/" + u.Name
	return s.registry.Change(ctx, object, "create", object, func(tx *gorm.DB, c *registry.Changed) error {
		c.After = u
		return tx.Create(u).Error
	})
}

func (s *Store) changeProviderUser(ctx context.Context, before, u *ProviderUser) error {
	object := "user/" + u.Name
	return s.registry.Change(ctx, object, "set role", object, func(tx *gorm.DB, c *registry.Changed) error {
		c.Before, c.After = before, u
		return tx.Save(u).Error
	})
}
