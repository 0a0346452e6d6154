package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

func TestTokens(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		header string
		words  string
	}{
		{"", "token required"}, {"Bearer", "Bearer TOKEN"}, {"Bearer ", "Bearer TOKEN"},
		{"Basic " + a.token, "Bearer TOKEN"},
		{a.token, "Bearer TOKEN"},
		{"Bearer wrong", "unknown or revoked"}, {"Bearer " + a.token + "x", "unknown"}, {"Bearer  x y", "unknown"},
	} {
		for _, path := range []string{orders, "/v1/jobs", "/nowhere"} {
			r := a.do("POST", path, `{"body":1}`, "Authorization", tt.header).problem(401, "", tt.words)
			if !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("WWW-Authenticate %q", r.header.Get("WWW-Authenticate"))
			}
		}
	}
	a.do("POST", orders, `{"body":1}`, "Authorization", "bearer "+a.token).want(201)
	a.registry.revoke(a.token)
	a.do("POST", orders, `{"body":1}`).problem(401, "", "revoked")
	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml", "/docs"} {
		a.do("GET", path, "", "Authorization", "").want(200)
	}
}

func TestTokenRights(t *testing.T) {
	routes := []struct {
		method, path, body string
		right              registry.Right
	}{
		{"POST", orders, `{"id":"x","body":1,"delay":60}`, "push"}, {"PUT", orders + "/x", "1", "push"},
		{"PATCH", orders + "/x", `{"delay":1}`, "push"},
		{"POST", orders + "/x/run", "", "push"}, {"GET", orders + "/x", "", "read"},
		{"GET", orders + "?state=ready", "", "read"},
		{"GET", "/v1/topics/shop.orders/stats", "", "read"}, {"DELETE", orders + "/x", "", "push"},
		{"POST", "/v1/topics/shop.orders/dead/retry", `{"limit":1}`, "manage"},
		{"POST", "/v1/topics/shop.orders/dead/delete", `{"limit":1}`, "manage"},
		{"GET", "/v1/topics/shop.orders", "", "read"},
		{"PUT", "/v1/topics/shop.orders", `{"callback_url":"http://x/"}`, "manage"},
		{"DELETE", "/v1/topics/shop.orders", "", "manage"},
	}
	all := []registry.Right{"push", "read", "manage"}
	a := newAPI(t)
	for _, tt := range routes {
		others := slices.DeleteFunc(slices.Clone(all), func(r registry.Right) bool { return r == tt.right })
		for _, token := range []string{a.registry.grant("others", "*", others...),
			a.registry.grant("elsewhere", "shop.mail bank.*", all...)} {
			before := len(a.jobs.changes())
			a.do(tt.method, tt.path, tt.body, "Authorization", "Bearer "+token).problem(403, "", string(tt.right),
				"shop.orders")
			// Unknown objects look the same.
			nowhere := strings.Replace(tt.path, "shop.orders", "shop.none", 1)
			a.do(tt.method, nowhere, tt.body, "Authorization", "Bearer "+token).problem(403, "", string(tt.right),
				"shop.none")
			if len(a.jobs.changes()) != before {
				t.Errorf("%s %s changed something", tt.method, tt.path)
			}
		}
		right := a.registry.grant("right", "shop.*", tt.right)
		if r := a.do(tt.method, tt.path, tt.body, "Authorization", "Bearer "+right); r.status >= 300 {
			t.Errorf("%s %s with the right: %d %s", tt.method, tt.path, r.status, r.body)
		}
	}
	nothing := a.registry.grant("nothing", "*")
	for _, req := range [][2]string{{"POST", "/v1/jobs"}, {"GET", "/v1/topics"}, {"GET", "/v1/shards"}} {
		a.do(req[0], req[1], "", "Authorization", "Bearer "+nothing).problem(403, "", "no right")
	}
}

// A token with the right tokens can list, create and revoke tokens that allow nothing that it does not allow itself. It
// sees no others, and a token without that right can do none of this.
func TestTokensOverTheAPI(t *testing.T) {
	a := newAPI(t)
	until := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	keeper := a.registry.grant("keeper", "shop.*", "push", "read", "tokens")
	within, other := a.registry.grant("within", "shop.a* shop.orders", "push"),
		a.registry.grant("other", "bank.*", "push")
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
	if r := by(keeper, "GET", "/v1/tokens", ""); !strings.Contains(r.body,
		`"last_used_at":"2026-01-02T03:04:00.000Z"`) ||
		strings.Contains(r.body, hashOf(within)) {
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
		`{"name":"x","rights":["push","tokens"],"topics":["shop.*"]}`:            http.StatusForbidden,
		`{"name":"x","rights":["push","fly"],"topics":["shop.*"]}`:               http.StatusUnprocessableEntity,
		`{"name":"x","rights":["push","manage"],"topics":["shop.*"]}`:            http.StatusForbidden,
		`{"name":"x","rights":["push"],"topics":["shop.orders","*"]}`:            http.StatusForbidden,
		`{"name":"x","rights":["push"],"topics":["shop*"]}`:                      http.StatusForbidden,
		`{"name":"x","rights":["push"],"topics":["bank.loans"]}`:                 http.StatusForbidden,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"expires_at":"2h"}`:   http.StatusUnprocessableEntity,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"expires_at":"-1h"}`:  http.StatusUnprocessableEntity,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"expires_at":"soon"}`: http.StatusBadRequest,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"expires_at":3600}`:   http.StatusBadRequest,
		`{"name":"x","rights":"push","topics":["shop.*"]}`:                       http.StatusBadRequest,
		`{"name":"x","rights":["push"],"topics":[1]}`:                            http.StatusBadRequest,
		`{"name":"x","name":"y","rights":["push"],"topics":["shop.*"]}`:          http.StatusBadRequest,
		`{"name":"x","rights":["push"],"topics":["shop.*"],"id":7}`:              http.StatusBadRequest,
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
		by(keeper, request[0], request[1], `{"name":"x","rights":["push"],"topics":["shop.*"]}`).problem(503, "",
			"database")
	}
}
