package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

// A token with the right tokens can list, create and revoke tokens that allow nothing that it does not allow itself. It
// sees no others, and a token without that right can do none of this.
func TestTokensOverTheAPI(t *testing.T) {
	a := newAPI(t)
	until := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	keeper := a.registry.grant("keeper", "shop.*", "push", "read", "tokens")
	within, other := a.registry.grant("within", "shop.a* shop.orders", "push"), a.registry.grant("other", "bank.*", "push")
	a.registry.edit(func(s *registry.Snapshot) {
		for i, secret := range []string{within, other, keeper} {
			token := *s.Tokens[hashOf(secret)]
			token.ID = uint64(i + 1)
			if secret == keeper {
				token.ExpiresAt = &until
			}
			s.Tokens[token.Hash] = &token
		}
	})
	by := func(secret, method, path, body string) reply {
		return a.do(method, path, body, "Authorization", "Bearer "+secret)
	}
	listed := func() (names []string) {
		list, _ := by(keeper, "GET", "/v1/tokens", "").want(200).json()["tokens"].([]any)
		for _, item := range list {
			token, _ := item.(map[string]any)
			names = append(names, token["name"].(string))
		}
		return names
	}
	if got := listed(); !slices.Equal(got, []string{"keeper", "within"}) {
		t.Errorf("listed %q", got)
	}
	if r := by(keeper, "GET", "/v1/tokens", ""); !strings.Contains(string(r.body),
		`"last_used_at":"2026-01-02T03:04:00.000Z"`) ||
		strings.Contains(string(r.body), hashOf(within)) {
		t.Errorf("the list is %s", r.body)
	}

	made := by(keeper, "POST", "/v1/tokens", `{"name":"new","rights":["push"],"topics":["shop.orders"]}`).want(201)
	secret, _ := made.json()["token"].(string)
	if a.registry.actor != "token:keeper" || made.json()["expires_at"] != until.Format("2006-01-02T15:04:05.000Z") {
		t.Errorf("by %s: %s", a.registry.actor, made.body)
	}
	by(secret, "POST", orders, `{"body":1}`).want(201)
	by(secret, "GET", "/v1/tokens", "").problem(403, "", "right to tokens")
	a.do("POST", "/v1/tokens", `{"name":"x","rights":["push"],"topics":["*"]}`).problem(403, "", "right to tokens")
	a.do("DELETE", "/v1/tokens/1", "").problem(403, "", "right to tokens")

	before := len(a.registry.Snapshot().Tokens)
	for body, want := range map[string]int{
		`{"name":"x","rights":["push","tokens"],"topics":["shop.*"]}`:         http.StatusForbidden,
		`{"name":"x","rights":["push","fly"],"topics":["shop.*"]}`:            http.StatusUnprocessableEntity,
		`{"name":"x","rights":["push","manage"],"topics":["shop.*"]}`:         http.StatusForbidden,
		`{"name":"x","rights":["push"],"topics":["shop.orders","*"]}`:         http.StatusForbidden,
		`{"name":"x","rights":["push"],"topics":["shop*"]}`:                   http.StatusForbidden,
		`{"name":"x","rights":["push"],"topics":["bank.loans"]}`:              http.StatusForbidden,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"expires":"2h"}`:   http.StatusUnprocessableEntity,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"expires":"-1h"}`:  http.StatusUnprocessableEntity,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"expires":"soon"}`: http.StatusBadRequest,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"expires":3600}`:   http.StatusBadRequest,
		`{"name":"x","rights":"push","topics":["shop.*"]}`:                    http.StatusBadRequest,
		`{"name":"x","rights":["push"],"topics":[1]}`:                         http.StatusBadRequest,
		`{"name":"x","name":"y","rights":["push"],"topics":["shop.*"]}`:       http.StatusBadRequest,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"id":7}`:           http.StatusBadRequest,
		`[]`:                                     http.StatusBadRequest,
		`{"name":"` + strings.Repeat("x", 1<<17): http.StatusRequestEntityTooLarge,
	} {
		if r := by(keeper, "POST", "/v1/tokens", body); r.status != want {
			t.Errorf("%.80s: %d %s", body, r.status, r.body)
		}
	}
	for id, want := range map[string]int{"2": 404, "99": 404, "x": 400, "-1": 400, "99999999999999999999": 400} {
		if r := by(keeper, "DELETE", "/v1/tokens/"+id, ""); r.status != want {
			t.Errorf("revoking %s: %d %s", id, r.status, r.body)
		}
	}
	if after := len(a.registry.Snapshot().Tokens); after != before {
		t.Errorf("after refused requests there are %d tokens, want %d", after, before)
	}

	by(keeper, "DELETE", "/v1/tokens/1", "").want(204)
	by(within, "GET", "/v1/shards", "").problem(401, "", "revoked")
	a.registry.fail = registry.ErrUnavailable
	for _, request := range [][2]string{{"GET", "/v1/tokens"}, {"POST", "/v1/tokens"}, {"DELETE", "/v1/tokens/3"}} {
		by(keeper, request[0], request[1], `{"name":"x","rights":["push"],"topics":["shop.*"]}`).problem(503, "", "database")
	}
}
