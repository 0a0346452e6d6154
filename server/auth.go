package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/internal/registry"
)

// authenticate finds a request's token, by its hash, in the registry's snapshot.
func (s *Server) authenticate(r *http.Request) (*registry.Token, error) {
	header := r.Header.Get(echo.HeaderAuthorization)
	if header == "" {
		return nil, &Problem{
			Status: http.StatusUnauthorized, Detail: "token required: send Authorization: Bearer TOKEN",
		}
	}
	scheme, secret, _ := strings.Cut(header, " ")
	secret = strings.TrimSpace(secret)
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return nil, &Problem{Status: http.StatusUnauthorized, Detail: "the Authorization header must be Bearer TOKEN"}
	}
	token, ok := s.registry.Snapshot().Token(secret)
	if !ok {
		return nil, &Problem{
			Status: http.StatusUnauthorized, Detail: "token unknown or revoked",
			challenge: ` error="invalid_token"`,
		}
	}
	if token.Expired(s.opts.Now()) {
		return nil, &Problem{
			Status: http.StatusUnauthorized, Detail: "token expired at " + token.ExpiresAt.Format(time.RFC3339),
			challenge: ` error="invalid_token"`,
		}
	}
	s.uses.note(token.ID)
	return token, nil
}

// allow checks a right on a topic before it looks the topic up, so a token without the right cannot find out whether
// the topic exists.
func allow(token *registry.Token, right registry.Right, topic string) error {
	if token.Allows(right, topic) {
		return nil
	}
	return &Problem{
		Status: http.StatusForbidden,
		Detail: fmt.Sprintf("token %s has no right to %s on topic %s", clip(token.Name), right, clip(topic)),
	}
}

// allowSomewhere checks that a token has a right on any topic.
func allowSomewhere(token *registry.Token, right registry.Right) error {
	if slices.Contains(token.Rights, right) {
		return nil
	}
	return &Problem{Status: http.StatusForbidden,
		Detail: fmt.Sprintf("token %s has no right to %s", clip(token.Name), right)}
}
