package server_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/server"
)

// TestPushUnavailable: if shards are down or full, the answer is 503 with Retry-After in whole seconds.
func TestPushUnavailable(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		reason string
		after  time.Duration
		want   string
	}{{"down", 1500 * time.Millisecond, "2"}, {"full", 5 * time.Second, "5"}, {"readonly", 0, "1"}, {"journal",
		time.Millisecond, "1"}} {
		a.jobs.fail = &store.UnavailableError{Reason: tt.reason, RetryAfter: tt.after,
			Err: fmt.Errorf("OOM command not allowed")}
		for _, req := range [][3]string{
			{"POST", orders, `{"body":1}`}, {"PUT", orders + "/x", "1"}, {"GET", orders + "/x", ""},
			{"DELETE", orders + "/x", ""},
			{"PATCH", orders + "/x", `{"delay":1}`}, {"POST", orders + "/x/run", ""},
			{"GET", orders + "?state=dead", ""},
			{"POST", "/v1/topics/shop.orders/dead/retry", `{"limit":1}`},
			{"POST", "/v1/topics/shop.orders/dead/delete", `{"limit":1}`},
			{"GET", "/v1/topics/shop.orders/stats", ""}, {"DELETE", "/v1/topics/shop.orders", ""},
			{"GET", "/readyz", ""},
			{"POST", "/v1/jobs", `{"jobs":[{"topic":"shop.orders","body":1},{"nonsense":1}]}`},
		} {
			r := a.do(req[0], req[1], req[2]).problem(503, "")
			if got := r.header.Get("Retry-After"); got != tt.want && req[1] != "/readyz" {
				t.Errorf("%s %s: Retry-After %q, want %q", req[0], req[1], got, tt.want)
			}
		}
	}
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("changed %v", got)
	}
	// A member that could not be stored does not fail the others.
	a.jobs.failID = "b"
	r := a.do("POST", "/v1/jobs",
		`{"jobs":[{"topic":"shop.orders","id":"a","body":1},{"topic":"shop.orders","id":"b","body":1}]}`).want(200)
	if !strings.Contains(r.body, `"status":503`) || !strings.Contains(r.body, `"id":"a"`) {
		t.Errorf("%s", r.body)
	}
}

// TestPushStoredButNotSafe: a job that is stored without its topic's durability is answered 503 with its id, also as a
// member of a batch.
func TestPushStoredButNotSafe(t *testing.T) {
	a := newAPI(t)
	a.jobs.fail = &store.UnavailableError{Reason: "replica", RetryAfter: time.Second, Stored: true,
		Err: errors.New("push x/y: no replica has confirmed it")}
	r := a.do("POST", orders, `{"body":1}`).problem(503, "")
	if r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, "no replica has confirmed") ||
		!regexp.MustCompile(`"id":"[0-9a-z]{26}"`).MatchString(r.body) {
		t.Errorf("%s", r.body)
	}
	r = a.do("POST", "/v1/jobs",
		`{"jobs":[{"topic":"shop.orders","id":"a","body":1},{"topic":"shop.orders","body":1}]}`).want(200)
	if strings.Count(r.body, `"status":503`) != 2 || !strings.Contains(r.body, `"id":"a"`) {
		t.Errorf("%s", r.body)
	}
}

func TestPushQueueErrors(t *testing.T) {
	a := newAPI(t)
	for _, tt := range []struct {
		err    error
		status int
		field  string
	}{{store.ErrTooFar, 422, "delay"}, {fmt.Errorf("secret detail"), 500, ""}} {
		a.jobs.fail = fmt.Errorf("push: %w", tt.err)
		r := a.do("POST", orders, `{"body":1}`).problem(tt.status, tt.field)
		if strings.Contains(r.body, "secret") {
			t.Errorf("the answer shows an internal error: %s", r.body)
		}
	}
}

// TestDeleteTopicWhoseLaterJobsRemain: those that were pushed while it was deleted could not be deleted.
func TestDeleteTopicWhoseLaterJobsRemain(t *testing.T) {
	a := newAPI(t)
	a.jobs.fail = &store.UnavailableError{Reason: "connection", RetryAfter: time.Second, Err: errors.New("broken")}
	a.jobs.drops = 2
	a.do("DELETE", "/v1/topics/shop.orders?drop=true", "").problem(503, "")
	if got := a.jobs.changes(); len(got) != 2 {
		t.Errorf("changes: %v; want two drops", got)
	}
}

func TestPushJournalBroken(t *testing.T) {
	broken := fmt.Errorf("the journal: %w", syscall.ENOSPC)
	var refused []string
	a := newAPI(t, func(o *server.Options) {
		o.Healthy = func() error { return broken }
		o.Refused = func(topic, reason string) { refused = append(refused, topic+" "+reason) }
	})
	a.jobs.jobs["shop.orders/x"] = &store.Job{Topic: "shop.orders", ID: "x", State: store.Delayed}
	for _, req := range [][3]string{
		{"POST", orders, `{"body":1}`}, {"PUT", orders + "/y", "1"}, {"DELETE", orders + "/x", ""},
		{"PATCH", orders + "/x", `{"delay":1}`},
		{"POST", orders + "/x/run", ""}, {"POST", "/v1/jobs", `{"jobs":[{"topic":"shop.orders","body":1}]}`},
		{"GET", "/readyz", ""},
		{"POST", "/v1/topics/shop.orders/dead/retry", `{"limit":1}`},
		{"DELETE", "/v1/topics/shop.orders?drop=true", ""},
	} {
		a.do(req[0], req[1], req[2]).problem(503, "", "journal", "no space")
	}
	if got := a.jobs.changes(); len(got) > 0 {
		t.Errorf("changed %v", got)
	}
	if !slices.Equal(refused, slices.Repeat([]string{"shop.orders journal"}, 3)) { // the pushes
		t.Errorf("refused: %q", refused)
	}
	a.do("GET", orders+"/x", "").want(200)
}
