package signin

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/wakecall/wakecall/internal/account"
)

// Identity is a person as the provider knows them.
type Identity struct {
	Issuer, Subject string       // together they identify the person, whatever else changes
	Name            string       // for people to read, not unique
	Role            account.Role // empty: none of their groups has one
	Group           string       // the group with that role
	Groups          []string
	TooMany         bool   // the provider left the groups out, because they are too many
	IDToken         string // to sign out at the provider
}

// identify verifies the ID token, and returns whom it is about.
func (p *Provider) identify(
	ctx context.Context, found *discovered, tokens *oauth2.Token, nonce string,
) (*Identity, error) {
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return nil, fmt.Errorf("%w: no id_token; the scope openid is required", ErrInvalid)
	}
	verifier := found.Verifier(&oidc.Config{ClientID: p.ClientID, Now: p.clock})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1 {
		return nil, fmt.Errorf("%w: the ID token has another nonce", ErrInvalid)
	}
	if s := token.Subject; s == "" || len(s) > maxSubject || strings.TrimSpace(s) != s {
		return nil, fmt.Errorf("%w: sub is %.80q", ErrInvalid, s)
	}
	c, err := p.claims(ctx, found, tokens, token)
	if err != nil {
		return nil, err
	}
	id := &Identity{
		Issuer: p.Issuer, Subject: token.Subject, Name: p.nameOf(c, token.Subject), Groups: p.groupsOf(c), IDToken: raw,
	}
	id.TooMany = c.leftOut(p.GroupsClaim)
	id.Role, id.Group = p.roleOf(id.Groups)
	return id, nil
}

// clock returns the time at which an ID token must not have expired. The clocks of two hosts differ a little.
func (p *Provider) clock() time.Time { return p.Now().Add(-maxClockSkew) }

// claims are what the provider says about a person.
type claims map[string]json.RawMessage

// claims returns those of the ID token. If it lacks those that are needed, as that of some providers does, they are
// read from the userinfo endpoint.
func (p *Provider) claims(
	ctx context.Context, found *discovered, tokens *oauth2.Token, token *oidc.IDToken,
) (claims, error) {
	var c claims
	if err := token.Claims(&c); err != nil {
		return nil, fmt.Errorf("%w: read the ID token: %w", ErrInvalid, err)
	}
	if azp := c.text("azp"); len(token.Audience) > 1 && azp != p.ClientID {
		return nil, fmt.Errorf("%w: the ID token is for the client %.80q", ErrInvalid, azp)
	}
	if c[p.GroupsClaim] != nil && p.nameOf(c, "") != "" || found.UserInfoEndpoint() == "" {
		return c, nil
	}
	info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return nil, fmt.Errorf("%w: read userinfo: %w", ErrUnreachable, err)
	}
	if info.Subject != token.Subject {
		return nil, fmt.Errorf("%w: userinfo is about another person", ErrInvalid)
	}
	var more claims
	if err := info.Claims(&more); err != nil {
		return nil, fmt.Errorf("%w: read userinfo: %w", ErrInvalid, err)
	}
	maps.Copy(more, c) // the ID token is signed
	return more, nil
}

func (c claims) text(name string) string {
	var s string
	_ = json.Unmarshal(c[name], &s) // another type counts as none
	return strings.TrimSpace(s)
}

// texts returns a claim with one text or several.
func (c claims) texts(name string) []string {
	var list []string
	if json.Unmarshal(c[name], &list) == nil {
		return list
	}
	if s := c.text(name); s != "" {
		return []string{s}
	}
	return nil
}

// verifiedEmail reports whether the provider knows that the address belongs to the person. Some send a text.
func (c claims) verifiedEmail() bool {
	v := string(c["email_verified"])
	return v == "true" || v == `"true"`
}

// leftOut reports whether the provider left a claim out of the token because of its size.
func (c claims) leftOut(name string) bool {
	var elsewhere map[string]json.RawMessage
	return json.Unmarshal(c["_claim_names"], &elsewhere) == nil && elsewhere[name] != nil
}

func (p *Provider) nameOf(c claims, fallback string) string {
	names := []string{"preferred_username", "email"}
	if p.UsernameClaim != "" {
		names = []string{p.UsernameClaim}
	}
	for _, name := range names {
		if s := c.text(name); s != "" {
			return s
		}
	}
	return fallback
}

// groupsOf returns the person's groups. An address that anybody could have entered gives no rights.
func (p *Provider) groupsOf(c claims) []string {
	if p.GroupsClaim == "email" && !c.verifiedEmail() {
		return nil
	}
	return c.texts(p.GroupsClaim)
}

// roleOf returns the highest role that one of the groups has.
func (p *Provider) roleOf(groups []string) (role account.Role, group string) {
	for _, role := range slices.Backward(account.Roles) {
		for _, group := range p.Roles[role] {
			if slices.Contains(groups, group) {
				return role, group
			}
		}
	}
	return "", ""
}

// hostOf returns the host of an address, or the address if it has none.
func hostOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}
