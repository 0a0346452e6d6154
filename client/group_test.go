package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGroups: what is sent about groups, and what the answers say.
func TestGroups(t *testing.T) {
	ctx, sent := t.Context(), ""
	answers := map[string]string{
		"GET":    `{"group":"order/42","counts":{"delayed":2,"ready":0,"running":0,"dead":1},"closed_until":"2026-01-02T03:04:05.678Z","jobs":[` + jobJSON + `]}`,
		"DELETE": `{"deleted":2,"running":1,"pending":["redis-2"]}`, "PATCH": `{"moved":3,"skipped":1}`,
		"POST": jobJSON, "PUT": jobJSON,
	}
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = strings.TrimSpace(strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("Idempotency-Key"), string(body)}, " "))
		_, _ = io.WriteString(w, answers[r.Method])
	}), 0)
	move := func(m GroupMove) func() error {
		return func() error {
			moved, err := c.MoveGroup(ctx, "g", m)
			if err == nil && *moved != (GroupMoved{3, 1}) {
				t.Errorf("%+v", moved)
			}
			return err
		}
	}
	cancel := func(name string, closeFor time.Duration) func() error {
		return func() error {
			done, err := c.CancelGroup(ctx, name, closeFor)
			if err == nil && (done.Deleted != 2 || done.Running != 1 || !slices.Equal(done.Pending, []string{"redis-2"})) {
				t.Errorf("%+v", done)
			}
			return err
		}
	}
	read := func(name string, limit int) func() error {
		return func() error {
			g, err := c.Group(ctx, name, limit)
			if err == nil && (g.Name != "order/42" || g.Counts != (GroupCounts{Delayed: 2, Dead: 1}) || len(g.Jobs) != 1 ||
				g.Jobs[0].ID != "a/b" || g.ClosedUntil.UnixMilli() != 1767323045678) {
				t.Errorf("%+v", g)
			}
			return err
		}
	}
	due := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
	for want, do := range map[string]func() error{
		"GET /v1/groups/order%2F42":                                 read("order/42", 0),
		"GET /v1/groups/%2E%2E?limit=5":                             read("..", 5),
		"DELETE /v1/groups/a%20b":                                   cancel("a b", 0),
		"DELETE /v1/groups/g?close=10m0s":                           cancel("g", 10*time.Minute),
		`PATCH /v1/groups/g  {"delay":"0s"}`:                        move(GroupMove{Delay: After(0)}),
		`PATCH /v1/groups/g  {"due_at":"2026-01-02T03:04:05.679Z"}`: move(GroupMove{DueAt: due}),
		`PATCH /v1/groups/g key-1 {"shift":"-1h0m0s"}`:              move(GroupMove{Shift: -time.Hour, Key: "key-1"}),
		`PATCH /v1/groups/g  {}`:                                    move(GroupMove{}),
		`POST /v1/topics/t/jobs  {"id":"x","group":"g","body":1}`: func() error {
			_, err := c.Push(ctx, "t", Push{ID: "x", Body: json.RawMessage(`1`), Group: "g"})
			return err
		},
		`PUT /v1/topics/t/jobs/x?group=g  1`: func() error {
			_, err := c.PushRaw(ctx, "t", RawPush{ID: "x", Body: []byte(`1`), Group: "g"})
			return err
		},
	} {
		if err := do(); err != nil || sent != want {
			t.Errorf("sent %s, want %s: %v", sent, want, err)
		}
	}
}

// TestAPushIntoAClosedGroupHasItsCode.
func TestAPushIntoAClosedGroupHasItsCode(t *testing.T) {
	c, _ := newServer(t, http.StatusConflict, `{"status":409,"code":"group_closed","field":"group"}`)
	_, err := c.Push(context.Background(), "t", Push{Body: json.RawMessage(`1`), Group: "g"})
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeGroupClosed || !errors.Is(err, ErrConflict) {
		t.Errorf("%v", err)
	}
}
