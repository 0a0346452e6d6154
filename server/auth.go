package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/wakecall/wakecall/registry"
)

// authenticate finds the token of a request in the registry's snapshot, where tokens stand by their hashes.
func (s *Server) authenticate(r *http.Request) (*registry.Token, error) {
	header := r.Header.Get(echo.HeaderAuthorization)
	if header == "" {
		return nil, &Problem{Status: http.StatusUnauthorized, Detail: "a token is needed: send Authorization: Bearer TOKEN"}
	}
	scheme, secret, _ := strings.Cut(header, " ")
	secret = strings.TrimSpace(secret)
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return nil, &Problem{Status: http.StatusUnauthorized, Detail: "the Authorization header must be Bearer TOKEN"}
	}
	token, ok := s.registry.Snapshot().Token(secret)
	if !ok {
		return nil, &Problem{
			Status: http.StatusUnauthorized, Detail: "the token is unknown or was revoked", challenge: ` error="invalid_token"`,
		}
	}
	return token, nil
}

// allow wants a right on a topic. Rights are asked before anything else, so that a token without them learns nothing of
// a topic, not even whether it is there.
func allow(token *registry.Token, right registry.Right, topic string) error {
	if token.Allows(right, topic) {
		return nil
	}
	return &Problem{
		Status: http.StatusForbidden,
		Detail: fmt.Sprintf("the token %s has no right to %s on topic %s", clip(token.Name), right, clip(topic)),
	}
}

// allowSomewhere wants a right on any topic at all.
func allowSomewhere(token *registry.Token, right registry.Right) error {
	if slices.Contains(token.Rights, right) {
		return nil
	}
	return &Problem{Status: http.StatusForbidden, Detail: fmt.Sprintf("the token %s has no right to %s", clip(token.Name), right)}
}
