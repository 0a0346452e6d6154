package server_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// TestCodes: a program learns from the code alone what to do.
func TestCodes(t *testing.T) {
	a := newAPI(t)
	for want, err := range map[string]error{
		"job_not_found": store.ErrNotFound, "job_running": store.ErrRunning, "job_changed": store.ErrChanged,
		"job_dead": store.ErrDead, "job_not_ended": store.ErrAlive, "body_gone": store.ErrBodyGone,
		"topic_not_found": registry.ErrNoTopic, "topic_changed": registry.ErrChanged, "internal": errors.New("disk"),
		"unavailable":     &store.UnavailableError{Reason: "down", Err: errors.New("refused")},
		"unconfirmed":     &store.UnavailableError{Reason: "replica", Stored: true, Err: errors.New("no replica")},
		"outcome_unknown": &store.UnavailableError{Reason: "journal", Err: errors.New("disk full")},
	} {
		a.jobs.fail = fmt.Errorf("change: %w", err)
		a.do("PATCH", orders+"/x", `{"delay":"1s"}`).code(want)
	}
	a.jobs.fail = &store.UnavailableError{Reason: "journal", Err: errors.New("disk full")}
	a.do("GET", orders+"/x", "").code("unavailable") // a read changes nothing, so its outcome does not matter
	a.jobs.fail = nil
	a.do("GET", "/v1/nowhere", "").code("not_found")
	a.do("GET", "/v1/topics/nowhere", "").code("topic_not_found")
	a.do("GET", "/v1/topics", "", "Authorization", "").code("unauthorized")
	a.do("PUT", "/healthz", "").code("invalid")
	a.do("POST", orders, `{}`).code("invalid")
	a.do("POST", "/v1/leases/none/ack", "").code("lease_over")
	a.do("POST", "/v1/topics/shop.orders/reserve", "").code("topic_not_pull")
}

// TestCodesAreListed: the table of codes, the OpenAPI description, the API page and the Go client list the same codes.
func TestCodesAreListed(t *testing.T) {
	list := func(file, pattern string) (found []string) {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			found = append(found, string(m[1]))
		}
		slices.Sort(found)
		return found
	}
	all := list("codes.go", `Code = "(\w+)"`)
	if len(all) < 20 {
		t.Fatalf("only %d codes found", len(all))
	}
	for _, other := range [][2]string{
		{"openapi.yaml", "(?m)^        - `(\\w+)` \\([0-9, ]+\\): .+ To do: .+$"},
		{"../docs/reference/api.md", "(?m)^\\| `(\\w+)` \\| [`0-9, ]+ \\| .+ \\|$"},
		{"../client/errors.go", `	Code\w+ += "(\w+)"`},
	} {
		got := list(other[0], other[1])
		if other[0] == "../client/errors.go" {
			got = append(got, "wrong_host") // of requests between hosts
			slices.Sort(got)
		}
		if !slices.Equal(got, all) {
			t.Errorf("%s lists\n%q, not\n%q", other[0], got, all)
		}
	}
}
