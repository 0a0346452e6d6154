package lmstfy

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"
	"strings"
	"sync"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/internal/registry/seal"
)

// A Limit limits the requests of a token. A value of 0 or less means no limit.
type Limit struct {
	Read     int64 `json:"read"`     // consumes per interval
	Write    int64 `json:"write"`    // publishes per interval
	Interval int64 `json:"interval"` // seconds
}

// A Token is a token of a namespace.
type Token struct {
	Text        seal.Text `json:"token"`
	Description string    `json:"description"`
	Limit       *Limit    `json:"limit,omitempty"`
	LimitOnly   bool      `json:"limit_only,omitempty"` // limit of a token that does not exist
}

// tokensOf holds the tokens of a namespace, as they are stored.
type tokensOf struct {
	Pool      string  `json:"pool"`
	Namespace string  `json:"namespace"`
	Tokens    []Token `json:"tokens"`
}

const settingPrefix = "lmstfy/"

// settingName returns the name of a namespace's setting. It fits the column, however long the names are.
func settingName(pool, namespace string) string {
	sum := sha256.Sum256([]byte(pool + "/" + namespace))
	return settingPrefix + hex.EncodeToString(sum[:16])
}

// Tokens are the tokens of all namespaces. They come from the registry's snapshot, so they are known while the database
// is unavailable. Its methods may be called from any goroutine.
type Tokens struct {
	registry gateway.Registry // one setting for each namespace of a pool

	mu       sync.Mutex
	revision int64
	known    map[[2]string]*tokensOf // by pool and namespace
}

// NewTokens returns the tokens of a registry.
func NewTokens(r gateway.Registry) *Tokens { return &Tokens{registry: r, revision: -1} }

// all returns the tokens by pool and namespace; the result must not be modified.
func (t *Tokens) all() (map[[2]string]*tokensOf, error) {
	s := t.registry.Snapshot()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known != nil && t.revision == s.Revision {
		return t.known, nil
	}
	known := map[[2]string]*tokensOf{}
	for name := range s.Settings {
		if !strings.HasPrefix(name, settingPrefix) {
			continue
		}
		var of tokensOf
		if _, err := s.Setting(name, &of); err != nil {
			return nil, err
		}
		known[[2]string{of.Pool, of.Namespace}] = &of
	}
	t.known, t.revision = known, s.Revision
	return known, nil
}

func (t *Tokens) of(pool, namespace string) ([]Token, error) {
	all, err := t.all()
	if err != nil {
		return nil, err
	}
	if of := all[[2]string{pool, namespace}]; of != nil {
		return of.Tokens, nil
	}
	return nil, nil
}

func find(list []Token, token string) *Token {
	i := slices.IndexFunc(list, func(t Token) bool {
		return subtle.ConstantTimeCompare([]byte(t.Text), []byte(token)) == 1
	})
	if i < 0 {
		return nil
	}
	return &list[i]
}

// Find returns a token, or the limit set for it, or nil if there is neither.
func (t *Tokens) Find(pool, namespace, token string) (*Token, error) {
	list, err := t.of(pool, namespace)
	return find(list, token), err
}

// List returns the tokens of a namespace.
func (t *Tokens) List(pool, namespace string) ([]Token, error) {
	list, err := t.of(pool, namespace)
	return slices.DeleteFunc(slices.Clone(list), func(t Token) bool { return t.LimitOnly }), err
}

// Errors of changes.
var (
	ErrTokenExists = database.NewRefusal("the token has already existed")
	ErrLimitExists = database.NewRefusal("the token has a limit already")
)

// actor is the actor of token changes in the audit trail.
const actor = "gateway lmstfy"

func (t *Tokens) edit(ctx context.Context, pool, namespace string, edit func(of *tokensOf) error) error {
	of := tokensOf{Pool: pool, Namespace: namespace}
	return t.registry.EditSetting(ctx, actor, settingName(pool, namespace), &of, func() error { return edit(&of) })
}

// Add adds a token. Errors: ErrTokenExists.
func (t *Tokens) Add(ctx context.Context, pool, namespace, token, description string) error {
	return t.edit(ctx, pool, namespace, func(of *tokensOf) error {
		switch known := find(of.Tokens, token); {
		case known == nil:
			of.Tokens = append(of.Tokens, Token{Text: seal.Text(token), Description: description})
		case known.LimitOnly:
			known.LimitOnly, known.Description = false, description
		default:
			return ErrTokenExists
		}
		return nil
	})
}

// Delete removes a token and its limit.
func (t *Tokens) Delete(ctx context.Context, pool, namespace, token string) error {
	return t.edit(ctx, pool, namespace, func(of *tokensOf) error {
		of.Tokens = slices.DeleteFunc(of.Tokens, func(known Token) bool { return string(known.Text) == token })
		return nil
	})
}

// SetLimit sets the limit of a token, which need not exist. Unless replace is set, there must be no limit yet. A nil
// limit removes it. Errors: ErrLimitExists.
func (t *Tokens) SetLimit(ctx context.Context, pool, namespace, token string, l *Limit, replace bool) error {
	return t.edit(ctx, pool, namespace, func(of *tokensOf) error {
		known := find(of.Tokens, token)
		if known == nil {
			of.Tokens = append(of.Tokens, Token{Text: seal.Text(token), LimitOnly: true})
			known = &of.Tokens[len(of.Tokens)-1]
		}
		if known.Limit != nil && !replace {
			return ErrLimitExists
		}
		known.Limit = l
		of.Tokens = slices.DeleteFunc(of.Tokens, func(t Token) bool { return t.LimitOnly && t.Limit == nil })
		return nil
	})
}

// A LimitOf is the limit of a token.
type LimitOf struct {
	Namespace string `json:"namespace"`
	Token     string `json:"token"`
	Limiter   Limit  `json:"limiter"`
}

// Limits returns the limits of all tokens. Outside the default pool, tokens are prefixed with their pool.
func (t *Tokens) Limits(defaultPool string) ([]LimitOf, error) {
	all, err := t.all()
	list := []LimitOf{}
	for _, of := range all {
		for _, token := range of.Tokens {
			if token.Limit == nil {
				continue
			}
			text := string(token.Text)
			if of.Pool != defaultPool {
				text = of.Pool + ":" + text
			}
			list = append(list, LimitOf{of.Namespace, text, *token.Limit})
		}
	}
	slices.SortFunc(list, func(a, b LimitOf) int {
		return strings.Compare(a.Namespace+"/"+a.Token, b.Namespace+"/"+b.Token)
	})
	return list, err
}
