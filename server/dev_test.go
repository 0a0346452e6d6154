package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue/devclock"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/server"
)

// fakeDev is a clock that an advance moves, with the calls and the error that a test gives it.
type fakeDev struct {
	now  time.Time
	done devclock.Advanced
	fail error
}

func withDev(d *fakeDev) func(*server.Options) { return func(o *server.Options) { o.Dev = d } }

func (f *fakeDev) Now() time.Time { return f.now }

func (f *fakeDev) Advance(
	_ context.Context, to func(now time.Time) time.Time,
) (devclock.Advanced, error) {
	if f.fail != nil {
		return devclock.Advanced{}, f.fail
	}
	f.now = to(f.now)
	f.done.Now = f.now
	return f.done, nil
}

var devStart = time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)

func TestDevAdvances(t *testing.T) {
	d := &fakeDev{now: devStart}
	a := newAPI(t, withDev(d))
	if got := a.do("GET", "/v1/dev/now", "").want(200).body; got != `{"now":"2026-11-27T08:00:00.000Z"}` {
		t.Error(got)
	}
	if got := a.do("POST", "/v1/dev/advance", `{"by":"720h"}`).want(200).body; got !=
		`{"now":"2026-12-27T08:00:00.000Z","calls":[]}` {
		t.Error(got)
	}
	d.done = devclock.Advanced{
		StoppedAt: devStart.Add(1500 * time.Millisecond),
		Calls: []devclock.Call{{
			Topic: "shop.close", ID: "order-42", At: devStart,
			Attempt: 2, Status: 503, Outcome: "retry",
		}},
	}
	want := `{"now":"2027-01-01T00:00:00.001Z","calls":[{"topic":"shop.close","id":"order-42","attempt":2,` +
		`"at":"2026-11-27T08:00:00.000Z","status":503,"outcome":"retry"}],"stopped_at":"2026-11-27T08:00:01.500Z"}`
	for _, to := range []string{`"2027-01-01T00:00:00.0001Z"`, `1798761600001`} { // rounded up, as all times
		if got := a.do("POST", "/v1/dev/advance", `{"to":`+to+`}`).want(200).body; got != want {
			t.Errorf("%s: %s", to, got)
		}
	}
	before := d.now
	a.do("POST", "/v1/dev/advance", `{"by":0}`).want(200)
	if !d.now.Equal(before) {
		t.Errorf("by 0 moved the clock to %s", d.now)
	}
}

func TestDevRefuses(t *testing.T) {
	d := &fakeDev{now: devStart}
	a := newAPI(t, withDev(d))
	for body, want := range map[string]struct {
		status int
		field  string
		word   string
	}{
		``:                      {400, "", "no body"},
		`[]`:                    {400, "", "object"},
		`{"by":"1h"`:            {400, "", "JSON"},
		`{}`:                    {400, "", "exactly one of by and to"},
		`{"by":"1h","to":1e12}`: {400, "", "exactly one of by and to"},
		`{"by":null}`:           {400, "by", "null"},
		`{"by":"soon"}`:         {400, "by", "duration"},
		`{"by":true}`:           {400, "by", "duration"},
		`{"by":"-1s"}`:          {422, "by", "between"},
		`{"by":"99999h"}`:       {422, "by", "10 years"},
		`{"to":"tomorrow"}`:     {400, "to", "RFC 3339"},
		`{"by":1,"by":2}`:       {400, "by", "duplicate"},
		`{"for":"1h"}`:          {400, "for", "unknown"},
		`{"by":"` + strings.Repeat("1", 2000) + `"}`: {413, "", ""},
	} {
		a.do("POST", "/v1/dev/advance", body).problem(want.status, want.field, want.word)
	}
	a.do("POST", "/v1/dev/advance?by=1h", `{"by":"1h"}`).want(400)
	if !d.now.Equal(devStart) {
		t.Errorf("a refused request moved the clock to %s", d.now)
	}

	d.fail = fmt.Errorf("%w: it shows %s", devclock.ErrBackwards, devStart.Format(time.RFC3339))
	a.do("POST", "/v1/dev/advance", `{"to":"2026-01-01T00:00:00Z"}`).
		problem(422, "to", "cannot go back", "2026-11-27T08")
	d.fail = devclock.ErrAdvancing
	a.do("POST", "/v1/dev/advance", `{"by":"1h"}`).problem(409, "", "another request").code("clock_advancing")
	d.fail = errors.New("reserve: disk")
	a.do("POST", "/v1/dev/advance", `{"by":"1h"}`).problem(500, "").code("internal")
}

func TestDevNeedsRights(t *testing.T) {
	a := newAPI(t, withDev(&fakeDev{now: devStart}))
	for token, want := range map[string][2]int{
		a.registry.grant("reader", "shop.*", registry.RightRead):    {200, 403},
		a.registry.grant("manager", "shop.*", registry.RightManage): {403, 200},
		"wk_none": {401, 401},
	} {
		header := []string{"Authorization", "Bearer " + token}
		a.do("GET", "/v1/dev/now", "", header...).want(want[0])
		a.do("POST", "/v1/dev/advance", `{"by":"1h"}`, header...).want(want[1])
	}
}

// TestDevRoutesExistOnlyThere: the token decides nothing about routes that do not exist.
func TestDevRoutesExistOnlyThere(t *testing.T) {
	a := newAPI(t)
	a.do("GET", "/v1/dev/now", "").problem(404, "").code("not_found")
	a.do("POST", "/v1/dev/advance", `{"by":"1h"}`).problem(404, "").code("not_found")
}
