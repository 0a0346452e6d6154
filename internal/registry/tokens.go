package registry

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry/database"
)

// newSecret returns a prefix followed by 32 random bytes in base64.
func newSecret(prefix string) string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return prefix + base64.RawURLEncoding.EncodeToString(b)
}

// CreateToken creates an API token and returns it. It cannot be read again. If expires is nil, it never expires. with
// sets the quotas and the maker.
// Errors: *FieldError, ErrUnavailable.
func (r *Registry) CreateToken(
	ctx context.Context, actor, name string, rights []Right, topics []string, expires *time.Time,
	with ...func(*Token),
) (secret string, t *Token, err error) {
	now := database.Now()
	secret = newSecret("wk_")
	t = &Token{
		Name: name, Hash: HashToken(secret), Rights: slices.Clone(rights), Topics: slices.Clone(topics),
		CreatedAt: now, ExpiresAt: expires,
	}
	for _, set := range with {
		set(t)
	}
	t.Quotas = t.Quotas.orNil()
	if err := errors.Join(t.Validate(), t.Quotas.Validate(), validExpiry(expires, now)); err != nil {
		return "", nil, err
	}
	err = r.Change(ctx, actor, "create", "token", func(tx *gorm.DB, c *Changed) error {
		row := newTokenRow(t)
		if err := tx.Create(row).Error; err != nil {
			return err
		}
		t.ID = row.ID
		if err := storeQuotas(tx, t); err != nil {
			return err
		}
		c.Object, c.After = tokenObject(t), t
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	return secret, t, nil
}

func tokenObject(t *Token) string { return fmt.Sprint("token/", t.ID) }

func newTokenRow(t *Token) *tokenRow {
	return &tokenRow{
		Name: t.Name, Hash: t.Hash, Rights: joinRights(t.Rights), Topics: strings.Join(t.Topics, "\n"),
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt,
	}
}

func joinRights(rights []Right) string {
	s := make([]string, len(rights))
	for i, r := range rights {
		s[i] = string(r)
	}
	return strings.Join(s, ",")
}

const maxPatterns = 100

// Validate checks the name, the rights and the topics of a new token. Errors are joined *FieldErrors.
func (t *Token) Validate() error {
	name, rights, topics := t.Name, t.Rights, t.Topics
	errs := []error{text("name", name, 100)}
	if strings.TrimSpace(name) == "" {
		errs = append(errs, Malformed("name", "field.token_name_required"))
	}
	if len(rights) == 0 {
		errs = append(errs, Malformed("rights", "field.rights_required"))
	}
	if len(topics) == 0 {
		errs = append(errs, Malformed("topics", "field.patterns_required"))
	}
	if len(topics) > maxPatterns {
		errs = append(errs, OutOfRange("topics", "field.too_many", len(topics), maxPatterns))
	}
	for i, x := range rights {
		errs = append(errs, oneOf("rights", x, Rights...))
		if slices.Contains(rights[:i], x) {
			errs = append(errs, Malformed("rights", "field.duplicate", x))
		}
	}
	for _, p := range topics {
		errs = append(errs, ValidTopicPattern(p))
	}
	return errors.Join(errs...)
}

// RevokeToken revokes a token on all hosts within a second. Errors: ErrNoToken, ErrUnavailable.
func (r *Registry) RevokeToken(ctx context.Context, actor string, id uint64) error {
	return r.Change(ctx, actor, "revoke", fmt.Sprint("token/", id), func(tx *gorm.DB, c *Changed) error {
		var row tokenRow
		missing := fmt.Errorf("%d: %w", id, ErrNoToken)
		if err := database.MustFind(tx, &row, "id", id, missing); err != nil {
			return err
		}
		c.Before = row.token()
		if err := tx.Delete(&quotaRow{TokenID: id}).Error; err != nil {
			return err
		}
		return tx.Delete(&row).Error
	})
}

// ListTokens returns the tokens as last read, oldest first. It works while the database is unavailable.
func (r *Registry) ListTokens() []*Token {
	byID := func(a, b *Token) int { return cmp.Compare(a.ID, b.ID) }
	return slices.SortedFunc(maps.Values(r.Snapshot().Tokens), byID)
}

// HashToken returns the hash that the registry stores for a token.
func HashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Token returns the token that a client sent. Its running time reveals nothing about stored tokens, because they are
// looked up by hash, and hashes are compared in constant time.
func (s *Snapshot) Token(secret string) (*Token, bool) {
	sum := sha256.Sum256([]byte(secret))
	var h [2 * sha256.Size]byte // as HashToken returns it
	hex.Encode(h[:], sum[:])
	t, ok := s.Tokens[string(h[:])]
	if !ok || subtle.ConstantTimeCompare([]byte(t.Hash), h[:]) != 1 {
		return nil, false
	}
	return t, true
}
