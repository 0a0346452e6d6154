package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe/relays"
)

// fakeRelays records what was asked of it.
type fakeRelays struct {
	list  []relays.Relay
	asked string
	fail  error
}

func (f *fakeRelays) Save(_ context.Context, r relays.Relay, mine func([]string) bool) error {
	f.asked = fmt.Sprint("save ", r.Name, r.Topics, r.Report, mine([]string{"shop.*"}))
	return f.fail
}

func (f *fakeRelays) Forget(_ context.Context, name string, _ func([]string) bool) error {
	f.asked = "forget " + name
	return f.fail
}

func (f *fakeRelays) List(context.Context) ([]relays.Relay, error) { return f.list, f.fail }

func TestRelays(t *testing.T) {
	a := newAPI(t)
	const relay = "/v1/relays/shop.outbox"
	a.do("PUT", relay, `{"oldest_ms":5,"waiting":2,"set_aside":1,"error":"é"}`).want(204)
	if want := "save shop.outbox[*] {5 2 1 é} true"; a.relays.asked != want {
		t.Errorf("asked to %s, want %s", a.relays.asked, want)
	}
	a.do("DELETE", relay, "").want(204)
	if a.relays.asked != "forget shop.outbox" {
		t.Error(a.relays.asked)
	}
	a.relays.list = []relays.Relay{{Name: "shop.outbox", Topics: []string{"shop.*"},
		SeenAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Report: relays.Report{Waiting: 2}}}
	want := `{"relays":[{"name":"shop.outbox","seen_at":"2026-01-02T03:04:05.000Z","oldest_ms":0,"waiting":2,` +
		`"set_aside":0}]}`
	if got := a.do("GET", "/v1/relays", "").want(200).body; strings.TrimSpace(got) != want {
		t.Errorf("got %s", got)
	}
	a.do("PUT", relay, `{"waiting":-1}`).problem(422, "waiting")
	a.do("PUT", relay, `{"rows":1}`).problem(400, "rows")
	a.do("PUT", "/v1/relays/a%20b", `{}`).problem(422, "relay")
	a.relays.fail = relays.ErrOthers
	a.do("PUT", relay, `{}`).problem(403, "relay", "--name")
	a.relays.fail = relays.ErrTooMany
	a.do("PUT", relay, `{}`).problem(422, "relay")
}

// TestRelaysOfAToken: a token sees reports of tokens within its patterns, and may cancel within them only.
func TestRelaysOfAToken(t *testing.T) {
	a := newAPI(t)
	shop := []string{"Authorization", "Bearer " + a.registry.grant("shop", "shop.*", "push", "read")}
	for _, topics := range []string{"shop.*", "*", "bank.*"} {
		a.relays.list = append(a.relays.list, relays.Relay{Name: topics, Topics: []string{topics}})
	}
	if got := a.do("GET", "/v1/relays", "", shop...).want(200).body; strings.Count(got, "name") != 1 ||
		!strings.Contains(got, `"shop.*"`) {
		t.Error(got)
	}
	a.do("PUT", "/v1/relays/x", `{}`, shop...).want(204)
	if !strings.HasPrefix(a.relays.asked, "save x[shop.*]") || !strings.HasSuffix(a.relays.asked, "true") {
		t.Error(a.relays.asked)
	}
	a.do("DELETE", "/v1/groups/g?topics=shop.orders", "", shop...).want(200)
	a.do("DELETE", "/v1/groups/g?topics=bank.*", "", shop...).problem(403, "topics", "shop.*")
	a.do("DELETE", "/v1/groups/g?topics=*", "", shop...).problem(403, "topics")
	read := []string{"Authorization", "Bearer " + a.registry.grant("read", "*", "read")}
	a.do("PUT", "/v1/relays/x", `{}`, read...).problem(403, "")
}
