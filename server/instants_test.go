package server_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// Every way in reads instants alike: Unix seconds are refused, never taken for January 1970.
func TestInstants(t *testing.T) {
	tests := map[string]int{
		`1795733497`:                       422, // Unix seconds
		`5`:                                422,
		`0`:                                422,
		`-1`:                               422,
		`946684799999`:                     422,
		`946684800000`:                     201,
		`1795733497000`:                    201,
		`1.795733497e12`:                   201,
		`"1999-12-31T23:59:59Z"`:           422,
		`"0000-01-01T00:00:00Z"`:           422,
		`"2000-01-01T00:00:00+01:00"`:      422,
		`"2000-01-01T00:00:00Z"`:           201,
		`"2026-12-01T09:00:00z"`:           201,
		`"2026-12-01t09:00:00+08:00"`:      201,
		`"2026-12-01T09:00:00.000000001z"`: 201,
		`"2026-12-01 09:00:00"`:            422, // in which time zone?
		`"2026-12-01T09:00:00"`:            422,
		`"tomorrow"`:                       400,
	}
	for value, status := range tests {
		t.Run(value, func(t *testing.T) {
			a := newAPI(t)
			a.do("POST", orders, `{"id":"x","body":1,"due_at":`+value+`}`).want(status)
			query := "?on_duplicate=replace&due_at=" + url.QueryEscape(strings.Trim(value, `"`))
			a.do("PUT", orders+"/y"+query, `1`).want(status)
			a.do("POST", orders, `{"id":"z","body":1,"delay":1}`).want(201)
			changed := map[bool]int{true: 200, false: status}[status == 201]
			a.do("PATCH", orders+"/z", `{"due_at":`+value+`}`).want(changed)
			batch := a.do("POST", "/v1/jobs", `{"jobs":[{"topic":"shop.orders","body":1,"due_at":`+value+`}]}`).want(200)
			if refused := strings.Contains(batch.body, `"error"`); refused != (status != 201) {
				t.Errorf("batch: %s", batch.body)
			}
		})
	}
	newAPI(t).do("POST", orders, `{"body":1,"due_at":1795733497}`).problem(422, "due_at", "Unix milliseconds are expected")
}

// A job that would expire before it is due could never be called.
func TestExpiryAfterDueTime(t *testing.T) {
	a := newAPI(t)
	in := func(d time.Duration) string { return time.Now().Add(d).Format(`"` + time.RFC3339Nano + `"`) }
	tests := []struct {
		fields string
		status int
		field  string
	}{
		{`"due_at":"2030-01-01T00:00:00Z","expires_at":"2030-01-01T00:00:00.001Z"`, 201, ""},
		{`"due_at":"2030-01-01T00:00:00Z","expires_at":"2030-01-01T00:00:00Z"`, 422, "expires_at"},
		{`"due_at":"2001-01-02T00:00:00Z","expires_at":"2001-01-01T00:00:00Z"`, 422, "expires_at"},
		{`"delay":60,"expires_at":` + in(time.Hour), 201, ""},
		{`"delay":3600,"expires_at":` + in(time.Minute), 422, "expires_at"},
		{`"expires_at":` + in(-time.Second), 422, "expires_at"},
		{`"expires_at":1795733497`, 422, "expires_at"},
		{`"delay":60,"ttl":"61s"`, 201, ""},
		{`"delay":60,"ttl":"1m"`, 422, "ttl"},
		{`"due_at":` + in(time.Hour) + `,"ttl":"1m"`, 422, "ttl"},
	}
	for _, tt := range tests {
		r := a.do("POST", orders, `{"body":1,`+tt.fields+`}`)
		if tt.status == 201 {
			r.want(201)
		} else {
			r.problem(tt.status, tt.field)
		}
		member := fmt.Sprintf(`{"jobs":[{"topic":"shop.orders","body":1,%s}]}`, tt.fields)
		batch := a.do("POST", "/v1/jobs", member).want(200)
		if refused := strings.Contains(batch.body, `"error"`); refused != (tt.status != 201) {
			t.Errorf("batch with %s: %s", tt.fields, batch.body)
		}
	}
	a.do("POST", orders, `{"id":"late","body":1}`).want(201)
	a.jobs.fail = store.ErrExpires
	a.do("PATCH", orders+"/late", `{"delay":60}`).problem(422, "due_at", "expires_at")
	a.jobs.fail = nil
	a.do("POST", "/v1/topics/shop.mail/jobs", `{"body":1,"expires_at":`+in(time.Second)+`}`).problem(422, "expires_at")
}
