package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
)

// fakeAlerts has an open alert of each of two topics and of the installation, and one that ended.
type fakeAlerts struct {
	ended map[string]bool // by key: since they were listed
	done  []string
}

func (f *fakeAlerts) ListAlerts(_ context.Context, filter alert.Filter) (list []alert.Alert, err error) {
	defer func() { list = slices.DeleteFunc(list, func(a alert.Alert) bool { return !filter.May(&a) }) }()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one := func(id uint64, key, topic string) alert.Alert {
		a := alert.Alert{ID: id, Key: key, Kind: "lateness", Severity: alert.Critical, Topic: topic, BeganAt: began,
			LastSeenAt: began, Causes: []alert.Cause{{Kind: "lateness"}}}
		if filter.Ended {
			a.EndedAt = &began
		}
		return a
	}
	if filter.Ended {
		return []alert.Alert{one(1, "topic/shop.old", "shop.old")}, nil
	}
	handled := one(4, "shard/main", "")
	handled.Handling = alert.Handling{By: "ann", Why: "known", At: began}
	return []alert.Alert{one(2, "topic/shop.close", "shop.close"), one(3, "topic/bank", "bank"), handled}, nil
}

func (f *fakeAlerts) Handle(_ context.Context, actor, key, why string, until time.Time) error {
	if f.ended[key] {
		return alert.ErrNoAlert
	}
	f.done = append(f.done, fmt.Sprint(actor, " ", key, " ", why, " ", time.Until(until).Round(time.Minute)))
	return nil
}

func (f *fakeAlerts) Say(code string, args ...any) string { return code + fmt.Sprint(args...) }

// TestAlertsBelongToTheirTopics: a token sees and handles those of its topics; those of the installation only with the
// pattern *.
func TestAlertsBelongToTheirTopics(t *testing.T) {
	a := newAPI(t)
	ids := func(token string) (list []float64) {
		answer := a.do("GET", "/v1/alerts", "", "Authorization", "Bearer "+token).want(200).json()
		for _, one := range answer["alerts"].([]any) {
			list = append(list, one.(map[string]any)["id"].(float64))
		}
		return list
	}
	if got := ids(a.token); !slices.Equal(got, []float64{2, 3, 4, 1}) {
		t.Errorf("all: %v", got)
	}
	shop := a.registry.grant("shop", "shop.*", "manage")
	if got := ids(shop); !slices.Equal(got, []float64{2, 1}) {
		t.Errorf("shop: %v", got)
	}
	by := func(id, action, body string) reply {
		return a.do("POST", "/v1/alerts/"+id+"/"+action, body, "Authorization", "Bearer "+shop)
	}
	by("2", "ack", `{"reason":"restarting"}`).want(204)
	by("2", "mute", `{"reason":"maintenance","for":"2h"}`).want(204)
	by("2", "unmute", "").want(204)
	for _, id := range []string{"1", "3", "4", "5"} {
		by(id, "ack", `{"reason":"mine"}`).problem(404, "", "no open alert "+id)
	}
	by("x", "unmute", "").problem(400, "alert", `"x"`)
	by("2", "ack", `{}`).problem(400, "reason", "required")
	by("2", "ack", `{"reason":"`+strings.Repeat("x", 501)+`"}`).problem(422, "reason", "500")
	by("2", "mute", `{"reason":"long"}`).problem(400, "for", "required")
	by("2", "mute", `{"reason":"long","for":"9000h"}`).problem(422, "for", "2160h")
	reader := a.registry.grant("reader", "*", "read")
	a.do("GET", "/v1/alerts", "", "Authorization", "Bearer "+reader).problem(403, "", "manage")
	want := []string{"token:shop topic/shop.close restarting", "token:shop topic/shop.close maintenance 2h0m0s",
		"token:shop topic/shop.close  "}
	for i, done := range a.alerts.done {
		if len(a.alerts.done) != len(want) || !strings.HasPrefix(done, want[i]) {
			t.Errorf("done: %q", a.alerts.done)
		}
	}
	a.alerts.ended = map[string]bool{"topic/shop.close": true}
	by("2", "ack", `{"reason":"late"}`).problem(404, "", "has ended")
}
