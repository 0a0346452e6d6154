package lmstfy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/test/pulltest"
	"github.com/wakecall/wakecall/test/wait"
)

// client sends requests to the API with a token of the namespace ns, and to the admin API as a user with write access.
type client struct {
	*testing.T
	api, admin http.Handler
	token      string
	q          *pulltest.Queue
	endpoint   *gateway.Endpoint
	options    Options
}

const (
	clientToken = "a-token-of-enough-bytes"
	clientBasic = "Basic b3BzOnNlY3JldA==" // ops:secret
)

// byDefault returns the default of a configuration key.
func byDefault(key string) string {
	return keys[slices.IndexFunc(keys, func(k conf.Key) bool { return k.Path == key })].Default
}

func newClient(t *testing.T) *client {
	t.Parallel()
	q := pulltest.Start(t, "lmstfy.*", "lmstfy-big.*")
	o := Options{
		Queue: q, Workers: q.Hub, Tokens: NewTokens(q.Registry), Pools: []string{"default", "big"}, Version: "1",
		Defaults: defaultsOf(byDefault),
		Accounts: gateway.NewAccounts(map[string]string{"ops": "secret"}, time.Now),
	}
	g := New(pulltest.Endpoint(t, "lmstfy"), o)
	c := &client{t, g.handler(), g.adminHandler(), clientToken, q, g.Endpoint, o}
	w := c.ask(c.admin, "POST", "/token/ns?description=d&token="+clientToken, "", "Authorization", clientBasic)
	if w.Code != 201 {
		t.Fatalf("create a token: %d %s", w.Code, w.Body)
	}
	wait.For(t, "the gateway knows the token", func() bool { return c.do("GET", "none", "").Code == 404 })
	return c
}

func (c *client) ask(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	c.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if len(w.Header().Get("X-Request-ID")) != 26 {
		c.Errorf("%s %s: X-Request-ID %q", method, target, w.Header().Get("X-Request-ID"))
	}
	return w
}

// do sends a request for a queue of the namespace.
func (c *client) do(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	c.Helper()
	return c.ask(c.api, method, "/api/ns/"+path, body, append(headers, "X-Token", c.token)...)
}

func (c *client) publish(path, body string, headers ...string) (id string) {
	c.Helper()
	w := c.do("PUT", path, body, headers...)
	var out struct {
		ID string `json:"job_id"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 201 ||
		w.Body.String() != `{"job_id":"`+out.ID+`","msg":"published"}` {
		c.Fatalf("publish: %d %s", w.Code, w.Body)
	}
	return out.ID
}

func (c *client) consume(path string) (jobs []described) {
	c.Helper()
	w := c.do("GET", path, "a body that nobody reads")
	text := w.Body.String()
	if strings.HasPrefix(text, "{") {
		text = "[" + text + "]"
	}
	if err := json.Unmarshal([]byte(text), &jobs); err != nil || w.Code != 200 {
		c.Fatalf("consume: %d %s", w.Code, w.Body)
	}
	return jobs
}

func (c *client) wants(h http.Handler, cases [][4]string, headers ...string) {
	c.Helper()
	for _, x := range cases {
		method, target, _ := strings.Cut(x[0], " ")
		if w := c.ask(h, method, target, x[1], headers...); fmt.Sprint(w.Code) != x[2] || w.Body.String() != x[3] {
			c.Errorf("%.120s %.40s: %d %s, want %s %s", x[0], x[1], w.Code, w.Body, x[2], x[3])
		}
	}
}

// consume0 returns the id of the job in a route's answer.
func (c *client) consume0(path string) string {
	c.Helper()
	return c.consume(path)[0].JobID
}
