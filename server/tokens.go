package server

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

// maxTokenBytes bounds the JSON of a new token.
const maxTokenBytes = 64 << 10

// covered lists the tokens that a token may see and revoke: those with no rights beyond its own.
func (s *Server) covered(by *registry.Token) []*registry.Token {
	return slices.DeleteFunc(s.registry.ListTokens(), func(t *registry.Token) bool { return !by.Covers(t) })
}

func (s *Server) listTokens(c *call) error {
	uses, err := s.registry.TokenUses(c.ctx())
	if err != nil {
		return err
	}
	views, list := []registry.ShownToken{}, s.covered(c.token)
	used := map[uint64]*registry.Quotas{}
	if s.opts.Uses != nil {
		used = s.opts.Uses(c.ctx(), registry.WithQuotas(list))
	}
	for _, t := range list {
		view := t.Shown(uses[t.ID])
		view.Used = used[t.ID]
		views = append(views, view)
	}
	return s.answer(c, http.StatusOK, map[string]any{"tokens": views})
}

// createToken creates a token within the rights of the requesting one, so a stolen token cannot gain rights. Tokens
// that may create tokens come only from the admin and the command line.
func (s *Server) createToken(c *call) error {
	return s.withBody(c, maxTokenBytes, func(body *buffer) error {
		want, err := decodeNewToken(body.b, s.opts.Now())
		if err != nil {
			return err
		}
		if want.ExpiresAt == nil {
			want.ExpiresAt = c.token.ExpiresAt
		}
		if err := want.Validate(); err != nil { // before the comparison: no token has a right that does not exist
			return err
		}
		if err := mayCreate(c.token, want); err != nil {
			return err
		}
		secret, t, err := s.registry.CreateToken(c.ctx(), c.actor(),
			want.Name, want.Rights, want.Topics, want.ExpiresAt, func(t *registry.Token) {
				t.MadeBy, t.Quotas = c.token.ID, want.Quotas
			})
		if err != nil {
			return err
		}
		view := t.Shown(time.Time{})
		view.Secret = secret
		return s.answer(c, http.StatusCreated, view)
	})
}

func mayCreate(token, want *registry.Token) error {
	switch until := token.ExpiresAt; {
	case slices.Contains(want.Rights, mayTokens):
		return &Problem{Status: http.StatusForbidden, Field: "rights",
			Detail: "the right tokens can only be granted in the admin or with wakecall token create"}
	case !token.Covers(want):
		return &Problem{Status: http.StatusForbidden, Detail: fmt.Sprintf(
			"token %s can only create tokens within its own rights and topic patterns", clip(token.Name))}
	case until != nil && want.ExpiresAt.After(*until):
		return outOfRange("expires_at", "must not be after token %s expires, at %s", clip(token.Name),
			until.Format(time.RFC3339))
	}
	return nil
}

// revokeToken gives the same answer for a token that is not covered as for one that does not exist.
func (s *Server) revokeToken(c *call) error {
	id, err := s.tokenID(c)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(s.covered(c.token), func(t *registry.Token) bool { return t.ID == id }) {
		return notFound(codeTokenNotFound, "no token %d within the rights of this token; GET /v1/tokens lists them", id)
	}
	if err := s.registry.RevokeToken(c.ctx(), c.actor(), id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// tokenID reads the id in the path. Another server may just have created the token.
func (s *Server) tokenID(c *call) (uint64, error) {
	id, err := strconv.ParseUint(c.Param("token"), 10, 63)
	if err != nil {
		return 0, badField("token", "must be the id of a token, got %q", clip(c.Param("token")))
	}
	s.registry.Refresh(c.ctx())
	return id, nil
}

// decodeNewToken reads the fields. Validate checks their values.
func decodeNewToken(data []byte, now time.Time) (*registry.Token, error) {
	var r struct {
		Name    field[string]              `json:"name"`
		Rights  field[[]string]            `json:"rights"`
		Topics  field[[]string]            `json:"topics"`
		Expires field[string]              `json:"expires_at"`
		Quotas  field[object[quotasField]] `json:"quotas"`
	}
	if err := decode(data, &r); err != nil {
		return nil, err
	}
	expires, err := registry.ParseExpiry(r.Expires.value, now)
	return &registry.Token{
		Name: r.Name.value, Rights: registry.RightsOf(r.Rights.value), Topics: r.Topics.value, ExpiresAt: expires,
		Quotas: r.Quotas.value.is.quotas(),
	}, err
}
