package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal/search"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/server"
)

// fakeSearch tells half, and the rest when it may.
type fakeSearch struct{ began, goOn chan struct{} }

func (f fakeSearch) All(_ context.Context, q search.Query, tell func(search.Report)) search.Report {
	job := func(topic string) search.Job {
		return search.Job{Topic: topic, ID: q.ID, Events: []search.Event{{What: "push", Body: []byte("secret")}}}
	}
	r := search.Report{Hosts: []search.Host{{Name: "one"}}, Jobs: []search.Job{job("shop.orders"), job("bank.orders")}}
	tell(search.Report{Hosts: r.Hosts, Jobs: []search.Job{job("shop.orders")}})
	f.began <- struct{}{}
	<-f.goOn
	r.Done = true
	return r
}

func (fakeSearch) Signed(r *http.Request, _ time.Time) bool {
	return strings.HasSuffix(r.Header.Get("Authorization"), "yes")
}

func (fakeSearch) Serve(context.Context, *http.Request, io.Writer, func()) error {
	return search.ErrOther
}

// TestSearchTellsWhatATokenMayRead, line by line, one search at a time; other hosts have to sign.
func TestSearchTellsWhatATokenMayRead(t *testing.T) {
	f := fakeSearch{make(chan struct{}), make(chan struct{})}
	a := newAPI(t, func(o *server.Options) { o.Search = f })
	a.jobs.jobs["shop.orders/42"] = &store.Job{Topic: "shop.orders", ID: "42", State: store.Delayed}
	a.token = a.registry.grant("shop", "shop.*", registry.RightRead)
	answers := make(chan reply)
	go func() { answers <- a.do("GET", "/v1/search?id=42", "") }()
	<-f.began
	a.do("GET", "/v1/search?id=42", "").problem(429, "", "under way")
	if a.jobs.finds != 1 {
		t.Errorf("a search that was refused asked the shards: %d calls", a.jobs.finds)
	}
	close(f.goOn)
	lines := strings.Split(strings.TrimSpace((<-answers).want(200).body), "\n")
	if len(lines) != 2 || strings.Contains(lines[0], "body_base64") || strings.Contains(lines[1], "bank") ||
		!strings.Contains(lines[1], `"body_base64":"c2VjcmV0"`) || !strings.Contains(lines[1], `"done":true`) ||
		!strings.Contains(lines[1], `"stored":[{"topic":"shop.orders","id":"42","state":"delayed"}]`) {
		t.Errorf("the answer is %q", lines)
	}
	a.do("GET", "/v1/search?id=42&topic=bank.orders", "").problem(403, "", "bank.orders")
	a.do("GET", "/v1/search", "").problem(400, "id")
	a.do("GET", "/v1/search?id=42&self=one", "", "Authorization", "Wakecall-Host no").problem(401, "", "seal_key")
	a.do("GET", "/v1/search?id=42&self=one", "", "Authorization", "Wakecall-Host yes").problem(409, "", "another host")
}
