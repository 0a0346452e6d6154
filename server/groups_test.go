package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// fakeGroups records what was asked of it.
type fakeGroups struct {
	asked string
	group queue.Group
	gone  queue.Cancelled
	fail  error
}

func (f *fakeGroups) Group(_ context.Context, group string, topics []string, limit int) (queue.Group, error) {
	f.asked = fmt.Sprint("read ", group, " ", topics, " ", limit)
	return f.group, f.fail
}

func (f *fakeGroups) CancelGroup(
	_ context.Context, group string, topics []string, d time.Duration,
) (queue.Cancelled, error) {
	f.asked = fmt.Sprint("cancel ", group, " ", topics, " ", d)
	return f.gone, f.fail
}

func (f *fakeGroups) MoveGroup(_ context.Context, group string, topics []string, m queue.Move) (int, int, error) {
	f.asked = fmt.Sprint("move ", group, " ", topics, " ", m.Key)
	for _, d := range []*time.Duration{m.Delay, m.Shift} {
		if d != nil {
			f.asked += " " + d.String()
		}
	}
	if m.DueAt != nil {
		f.asked += " " + m.DueAt.Format(time.RFC3339)
	}
	return 3, 1, f.fail
}

func TestGroups(t *testing.T) {
	a := newAPI(t)
	const group = "/v1/groups/order%2042"
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a.groups.group = queue.Group{
		Counts: queue.GroupCounts{Delayed: 2, Dead: 1}, ClosedUntil: at,
		Jobs: []store.Job{{Topic: "shop.orders", ID: "x", State: store.Delayed, DueAt: at, NextAt: at, Group: "order 42"}},
	}
	asked := func(want string) {
		t.Helper()
		if got := a.groups.asked; got != want {
			t.Errorf("asked to %s, want %s", got, want)
		}
	}
	r := a.do("GET", group+"?limit=5", "").want(200)
	asked("read order 42 [*] 5")
	for _, part := range []string{`"counts":{"delayed":2,"ready":0,"running":0,"dead":1}`, `"group":"order 42"`,
		`"closed_until":"2026-01-02T03:04:05.000Z"`, `"id":"x"`} {
		if !strings.Contains(r.body, part) {
			t.Errorf("no %s in %s", part, r.body)
		}
	}
	a.groups.gone = queue.Cancelled{Deleted: 2, Running: 1}
	if r := a.do("DELETE", group, "").want(200); r.body != `{"deleted":2,"running":1}` {
		t.Error(r.body)
	}
	asked("cancel order 42 [*] 0s")
	a.groups.gone.Pending = []string{"redis-2"}
	if r := a.do("DELETE", group+"?close=10m", "").want(202); r.body != `{"deleted":2,"running":1,"pending":["redis-2"]}` {
		t.Error(r.body)
	}
	asked("cancel order 42 [*] 10m0s")
	a.do("DELETE", group+"?topics=shop.*,x", "").want(202)
	asked("cancel order 42 [shop.* x] 0s")
	for body, want := range map[string]string{
		`{"delay":"90s"}`:                   " 1m30s",
		`{"due_at":"2027-01-02T03:04:05Z"}`: " 2027-01-02T03:04:05Z",
		`{"shift":"-30m"}`:                  "k -30m0s",
	} {
		key, _, _ := strings.Cut(want, " ")
		if r := a.do("PATCH", group, body, "Idempotency-Key", key).want(200); r.body != `{"moved":3,"skipped":1}` {
			t.Error(r.body)
		}
		asked("move order 42 [*] " + want)
	}
	a.groups.fail = &store.UnavailableError{Reason: "down", Err: errors.New("refused")}
	a.do("DELETE", group, "").problem(503, "").code("unavailable")
}

func TestGroupsRefuseWhatIsWrong(t *testing.T) {
	a := newAPI(t)
	const group = "/v1/groups/g"
	a.do("GET", "/v1/groups/%20g", "").problem(400, "group", "space")
	a.do("GET", group+"?limit=2000", "").problem(422, "limit")
	a.do("DELETE", group+"?close=soon", "").problem(400, "close")
	a.do("DELETE", group+"?topics=A", "").problem(400, "topics")
	a.do("DELETE", group+"?close=0s", "").problem(422, "close", "1s")
	a.do("DELETE", group+"?close=721h", "").problem(422, "close")
	a.do("PATCH", group, `{}`).problem(400, "", "exactly one")
	a.do("PATCH", group, `{"delay":"1s","shift":"1s"}`).problem(400, "", "exactly one")
	a.do("PATCH", group, `{"shift":"1s"}`).problem(400, "Idempotency-Key")
	a.do("PATCH", group, `{"shift":"1s"}`, "Idempotency-Key", strings.Repeat("x", 129)).problem(422, "Idempotency-Key")
	a.do("PATCH", group, `{"shift":"1000000h"}`, "Idempotency-Key", "k").problem(422, "shift")
	for _, group := range []string{`""`, `" x"`, `1`, `"` + strings.Repeat("x", 129) + `"`} {
		a.do("POST", orders, `{"body":1,"group":`+group+`}`).problem(400, "group")
	}
	if a.groups.asked != "" {
		t.Error("asked to", a.groups.asked)
	}
	a.jobs.fail = fmt.Errorf("push: %w", store.ErrClosed)
	a.do("POST", orders, `{"body":1,"group":"g"}`).problem(409, "group", "closed").code("group_closed")
}

// TestPushIntoAGroup: by each of the three ways, and shown again.
func TestPushIntoAGroup(t *testing.T) {
	a := newAPI(t)
	for _, push := range []func() reply{
		func() reply { return a.do("POST", orders, `{"id":"1","body":1,"group":"42"}`) },
		func() reply { return a.do("PUT", orders+"/2?group=42", "x", "Content-Type", "text/plain") },
		func() reply {
			return a.do("POST", "/v1/jobs", `{"jobs":[{"topic":"shop.orders","id":"3","body":1,"group":"42"}]}`)
		},
	} {
		if r := push(); !strings.Contains(r.body, `"group":"42"`) {
			t.Error(r.body)
		}
	}
}

// TestGroupsAreThoseOfTheToken: a token reads, cancels and moves jobs of its own topics only.
func TestGroupsAreThoseOfTheToken(t *testing.T) {
	a := newAPI(t)
	may := []string{"Authorization", "Bearer " + a.registry.grant("shop", "shop.* bank.loans", "push", "read")}
	for _, request := range [][3]string{{"GET", "", "read g [shop.* bank.loans] 100"},
		{"DELETE", "", "cancel g [shop.* bank.loans] 0s"}, {"PATCH", `{"delay":"1s"}`, "move g [shop.* bank.loans]  1s"}} {
		a.do(request[0], "/v1/groups/g", request[1], may...).want(200)
		if a.groups.asked != request[2] {
			t.Errorf("asked to %s, want %s", a.groups.asked, request[2])
		}
		a.groups.asked = ""
		right := registry.RightRead
		if request[0] == "GET" {
			right = registry.RightPush
		}
		other := []string{"Authorization", "Bearer " + a.registry.grant("other"+request[0], "*", right)}
		a.do(request[0], "/v1/groups/g", request[1], other...).problem(403, "").code("forbidden")
		a.do(request[0], "/v1/groups/g", request[1], "Authorization", "").want(401)
		if a.groups.asked != "" {
			t.Error("asked to", a.groups.asked)
		}
	}
}
