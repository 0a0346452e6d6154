package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/quota"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
)

// fakeMeter admits as many pushes as are left.
type fakeMeter struct{ left int }

func (m *fakeMeter) Run(ctx context.Context, _ func() *registry.Snapshot) { <-ctx.Done() }

func (m *fakeMeter) Admit(_ context.Context, tokens []*registry.Token, n int) (int, *quota.ExceededError) {
	admitted := min(n, m.left)
	if m.left -= admitted; admitted == n {
		return n, nil
	}
	return admitted, &quota.ExceededError{
		Token: tokens[0].Name, Quota: "pushes_per_second", Limit: 10, After: 1200 * time.Millisecond,
	}
}

func TestPushesBeyondAQuotaAreRefused(t *testing.T) {
	m := &fakeMeter{left: 3}
	a := newAPI(t, func(o *server.Options) { o.Meter = m })
	a.do("POST", orders, `{"id":"free","body":1,"delay":60}`).want(201)
	a.registry.edit(func(s *registry.Snapshot) {
		for _, token := range s.Tokens {
			token.ID, token.Quotas = 7, &registry.Quotas{PushesPerSecond: 10, WaitingJobs: 5}
		}
		s.SetLimits()
	})
	a.do("POST", orders, `{"id":"one","body":1,"delay":60}`).want(201)
	r := a.do("POST", "/v1/jobs", `{"jobs":[
		{"topic":"shop.orders","id":"a","body":1,"delay":60}, {"topic":"shop.orders","id":"wrong"},
		{"topic":"shop.orders","id":"b","body":1,"delay":60}, {"topic":"shop.orders","id":"c","body":1,"delay":60}]}`)
	for i, one := range r.want(200).json()["results"].([]any) {
		problem, _ := one.(map[string]any)["error"].(map[string]any)
		if code, _ := problem["code"].(string); code != []string{"", "invalid", "", "quota_exceeded"}[i] {
			t.Errorf("job %d: %v", i, one)
		}
	}
	for _, push := range []func() reply{
		func() reply { return a.do("POST", orders, `{"id":"d","body":1}`) },
		func() reply { return a.do("PUT", orders+"/e", `1`) },
	} {
		r := push().want(http.StatusTooManyRequests)
		r.code("quota_exceeded")
		for name, want := range map[string]string{
			"Retry-After": "2", "RateLimit-Policy": `"pushes_per_second";q=10;w=1`,
			"RateLimit": `"pushes_per_second";r=0;t=2`,
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
	a.do("PATCH", orders+"/one", `{"priority":"low"}`).want(200)
	a.do("DELETE", orders+"/one", "").want(204)
	if changes := strings.Join(a.jobs.changes(), " "); strings.Contains(changes, "/d") ||
		strings.Contains(changes, "/e") {
		t.Errorf("changes: %s", changes)
	}
}

func TestOnlyTheMakerSetsTheQuotasOfAToken(t *testing.T) {
	a := newAPI(t)
	a.token = a.registry.grant("maker", "*", registry.RightTokens, registry.RightPush)
	made := a.do("POST", "/v1/tokens",
		`{"name":"x","rights":["push"],"topics":["shop.*"],"quotas":{"waiting_jobs":5}}`).
		want(201).json()
	if q := made["quotas"].(map[string]any); q["waiting_jobs"] != 5.0 {
		t.Errorf("%v", made)
	}
	a.do("POST", "/v1/tokens", `{"name":"x","rights":["push"],"topics":["*"],"quotas":{"jobs":5}}`).want(400)
	for _, id := range []string{"77", "x"} {
		if r := a.do("PATCH", "/v1/tokens/"+id, `{"quotas":{}}`); r.status != 404 && r.status != 400 {
			t.Errorf("%s: %d", id, r.status)
		}
	}
	a.do("PATCH", "/v1/tokens/1000", `{}`).want(400)
}
