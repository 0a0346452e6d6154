package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/wakecall/wakecall/test/harness"
)

// cliToken is a token in the output of the command line and the API.
type cliToken struct {
	ID         uint64
	Name       string
	Token      string
	Rights     []string
	ExpiresAt  string `json:"expires_at"`
	LastUsedAt string `json:"last_used_at"`
}

func (i *installation) listTokens(t *testing.T) map[string]cliToken {
	t.Helper()
	var list []cliToken
	out := i.succeeds(t, "token", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("token list prints %s (%v)", out, err)
	}
	byName := map[string]cliToken{}
	for _, token := range list {
		byName[token.Name] = token
	}
	return byName
}

// TestTokensAreCreatedAndRevoked: a token created by the command line works within a second, and so does one that it
// created through the API, until they are revoked; both are listed with their expiry, and after the server has stopped,
// with their last use.
func TestTokensAreCreatedAndRevoked(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	out := i.succeeds(t, "token", "create", "team", "--rights", "push,tokens", "--topics", topic, "--expires", "90d",
		"-o",
		"json")
	var team, made cliToken
	if err := json.Unmarshal([]byte(out), &team); err != nil || team.Token == "" || team.ExpiresAt == "" {
		t.Fatalf("token create prints %s (%v)", out, err)
	}
	api := func(token, method, path string, body any, want int) harness.Answer {
		t.Helper()
		var a harness.Answer
		harness.Eventually(t, soon, fmt.Sprint(method, " ", path, " to be ", want), func() error {
			a = harness.NewAPI(i.API.Base, token).Do(t.Context(), method, path, body)
			return harness.Equal("status", a.Status, want)
		})
		return a
	}
	api(team.Token, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"body": 1}, http.StatusCreated)
	a := api(team.Token, http.MethodPost, "/v1/tokens",
		M{"name": "child", "rights": []string{"push"}, "topics": []string{topic}},
		http.StatusCreated)
	if err := a.JSON(&made); err != nil || made.Token == "" || made.ExpiresAt == "" {
		t.Fatalf("POST /v1/tokens: %s (%v)", a, err)
	}
	api(made.Token, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"body": 2}, http.StatusCreated)
	api(team.Token, http.MethodPost, "/v1/tokens", M{"name": "x", "rights": []string{"push"}, "topics": []string{"*"}},
		http.StatusForbidden)

	i.succeeds(t, "token", "revoke", fmt.Sprint(team.ID))
	api(team.Token, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"body": 3}, http.StatusUnauthorized)
	api(made.Token, http.MethodPost, "/v1/topics/"+topic+"/jobs", M{"body": 4}, http.StatusCreated)
	if list := i.listTokens(t); list["team"].ID != 0 || list["child"].ID != made.ID || len(list["first"].Rights) != 6 {
		t.Errorf("token list has %+v", list)
	}
	for _, wrong := range [][]string{
		{"revoke", fmt.Sprint(team.ID)}, {"revoke", "team"}, {"create", "x"}, {"create", "x", "--rights", "push"},
		{"create", "x", "--rights", "fly", "--topics", "*"}, {"create", "x", "--rights", "push", "--topics", "A B"},
		{"create", "x", "--rights", "push", "--topics", "*", "--expires", "yesterday"},
	} {
		if code, out := i.Run(append([]string{"token"}, wrong...)...); code == 0 ||
			!strings.HasPrefix(out, "wakecall: ") {
			t.Errorf("token %v: code %d\n%s", wrong, code, out)
		}
	}
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	list := i.listTokens(t)
	if len(list) != 2 || list["child"].LastUsedAt == "" || list["child"].ExpiresAt != team.ExpiresAt {
		t.Errorf("after a stop, token list has %+v", list)
	}
	if out := i.succeeds(t, "token", "list"); strings.Contains(out, made.Token) || !strings.Contains(out, "child") {
		t.Errorf("token list prints\n%s", out)
	}
}
