package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/schedule"
	"github.com/wakecall/wakecall/internal/store"
)

// fakeSchedules keeps definitions in a fakeRegistry, and records what else was asked of it.
type fakeSchedules struct {
	registry *fakeRegistry
	asked    string
	down     bool // the shard does not answer
	fail     error
}

func (f *fakeSchedules) Get(_ context.Context, name string) (*recurring.View, error) {
	def := f.registry.Snapshot().Schedules.Get(name)
	if def == nil {
		return nil, registry.ErrNoSchedule
	}
	v := f.view(def)
	return &v, nil
}

func (f *fakeSchedules) view(def *registry.Schedule) recurring.View {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	v := recurring.View{Schedule: def, Next: recurring.Next(def, now, 5)}
	if f.down {
		v.Err = errors.New("down")
		return v
	}
	v.Cursor = &store.Cursor{LeftOut: map[string]int{"late": 1, "overlap": 0, "paused": 0, "limit": 0, "edited": 2}}
	for n, state := range []store.State{"done", "delayed"} {
		at := now.Add(time.Duration(n) * time.Minute)
		v.Cursor.Last = append(v.Cursor.Last, store.Occurrence{
			ID: schedule.OccurrenceID(def.Name, at), For: at.UnixMilli(), State: state,
		})
	}
	return v
}

func (f *fakeSchedules) List(
	_ context.Context, wanted func(*registry.Schedule) bool, after string, limit int,
) (list []recurring.View, next string) {
	for name, def := range f.registry.Snapshot().Schedules.From(after) {
		if name == after || !wanted(def) {
			continue
		}
		if len(list) == limit {
			return list, list[limit-1].Name
		}
		list = append(list, f.view(def))
	}
	return list, ""
}

func (f *fakeSchedules) Put(
	_ context.Context, _ string, def registry.Schedule, may func(*registry.Schedule) error,
) (*registry.Schedule, bool, error) {
	was := f.registry.Snapshot().Schedules.Get(def.Name)
	def.Shard, def.CreatedAt, def.UpdatedAt = "a", time.Now().UTC(), time.Now().UTC()
	if err := errors.Join(f.fail, may(was)); err != nil {
		return nil, false, err
	}
	if err := def.Validate(); err != nil {
		return nil, false, err
	}
	f.registry.edit(func(s *registry.Snapshot) { s.Schedules = s.Schedules.With(def.Name, &def) })
	return &def, was == nil, nil
}

func (f *fakeSchedules) Delete(_ context.Context, actor, name string) error {
	f.asked = fmt.Sprint("delete ", name, " by ", actor)
	return f.fail
}

func (f *fakeSchedules) Pause(
	_ context.Context, actor, name string, until time.Time,
) (*registry.Schedule, error) {
	f.asked = fmt.Sprint("pause ", name, " by ", actor, " ", until.UTC().Format(time.RFC3339))
	return nil, f.fail
}

func (f *fakeSchedules) Resume(_ context.Context, _, name string, catchUp bool) (*registry.Schedule, error) {
	f.asked = fmt.Sprint("resume ", name, " ", catchUp)
	return nil, f.fail
}

func (f *fakeSchedules) Run(_ context.Context, name string) (*store.Job, error) {
	return &store.Job{Topic: "shop.orders", ID: name + "!2026-11-23T10:00:00.123Z"}, f.fail
}

func (f *fakeSchedules) Backfill(
	_ context.Context, name string, b recurring.Backfill,
) (*recurring.Backfilled, error) {
	f.asked = fmt.Sprint("backfill ", name, " ", b.From.UTC().Format(time.DateOnly), " ", b.To.Sub(b.From), " ", b.Overlap, b.DryRun)
	return &recurring.Backfilled{Occurrences: []time.Time{b.From.UTC()}, Pushed: 1, There: 2, LeftOut: 3}, f.fail
}

const report = "/v1/schedules/report"

const weekdays = `{"topic":"shop.orders","cron":"0 8 * * 1-5","time_zone":"Asia/Shanghai","body":{"report":"daily"}}`

func newScheduling(t *testing.T) *api {
	t.Helper()
	a := newAPI(t)
	a.token = a.registry.grant("schedules", "*", registry.Rights...)
	return a
}

// TestAScheduleIsStoredAsItIsTold: what the API tells can be sent back.
func TestAScheduleIsStoredAsItIsTold(t *testing.T) {
	a := newScheduling(t)
	first := a.do("PUT", report, weekdays).want(201)
	if got := first.header.Get("Location"); got != report {
		t.Errorf("Location: %s", got)
	}
	told := a.do("GET", report, "").want(200)
	v := told.json()
	if next := v["next"].([]any); len(next) != 5 || next[0] != "2026-11-24T00:00:00.000Z" {
		t.Errorf("next: %v", next)
	}
	if last := v["last"].([]any); last[0].(map[string]any)["id"] != "report@2026-11-23T00:01:00Z" {
		t.Errorf("last: %v", last)
	}
	if body := fmt.Sprint(v["body"]); body != "map[report:daily]" {
		t.Error(body)
	}
	a.do("PUT", report, told.body).want(200)
	if again := a.do("GET", report, "").json(); fmt.Sprint(again["next"], again["body"]) != fmt.Sprint(v["next"], v["body"]) {
		t.Errorf("%v, before %v", again, v)
	}
	a.schedules.down = true
	if v := a.do("GET", report, "").want(200).json(); v["last"] != nil || fmt.Sprint(v["unavailable"]) != "[a]" {
		t.Errorf("%v", v)
	}
}

func TestSchedulesAreListedInPages(t *testing.T) {
	a := newScheduling(t)
	for _, name := range []string{"c", "a", "b"} {
		a.do("PUT", "/v1/schedules/"+name, weekdays).want(201)
	}
	page := a.do("GET", "/v1/schedules?limit=2", "").want(200).json()
	if next := page["next"]; next != "b" || len(page["schedules"].([]any)) != 2 {
		t.Fatalf("%v", page)
	}
	page = a.do("GET", "/v1/schedules?limit=2&cursor=b", "").want(200).json()
	if page["next"] != "" || len(page["schedules"].([]any)) != 1 {
		t.Errorf("%v", page)
	}
	if page := a.do("GET", "/v1/schedules?topic=nowhere", "").want(200).json(); len(page["schedules"].([]any)) != 0 {
		t.Errorf("%v", page)
	}
}

// TestWrongSchedulesAreRefused, with the field and the way out.
func TestWrongSchedulesAreRefused(t *testing.T) {
	a := newScheduling(t)
	for _, one := range []struct {
		body, field, detail string
		status              int
	}{
		{`{"topic":"shop.orders","cron":"0 8 * *","body":1}`, "cron", "", 422},
		{`{"topic":"shop.orders","cron":"0 8 30 2 *","body":1}`, "cron", "", 422},
		{`{"topic":"shop.orders","cron":"@reboot","body":1}`, "cron", "", 422},
		{`{"topic":"shop.orders","cron":"TZ=UTC 0 8 * * *","body":1}`, "cron", "", 422},
		{`{"topic":"shop.orders","cron":"0 8 * * *","time_zone":"Europe/Nowhere","body":1}`, "time_zone", "IANA", 422},
		{`{"topic":"shop.orders","cron":"0 8 * * *","every":"1s","body":1}`, "cron", "", 400},
		{`{"topic":"shop.orders","body":1}`, "cron", "", 400},
		{`{"topic":"shop.orders","every":"100ms","body":1}`, "every", "1s", 422},
		{`{"topic":"shop.orders","every":"1s"}`, "body", "", 400},
		{`{"topic":"shop.orders","every":"1s","body":1,"jitter":"1s"}`, "jitter", "", 422},
		{`{"topic":"shop.orders","every":"1s","body":1,"missed":"some"}`, "missed", "", 422},
		{`{"topic":"shop.orders","every":"1s","body":1,"colour":"red"}`, "colour", "topic, cron", 400},
		{`{"topic":"shop.orders","every":"1s","body":1,"start_at":"soon"}`, "start_at", "instant", 400},
		{`{"topic":"shop.orders","every":"1s","every":"2s","body":1}`, "every", "", 400},
		{`{"topic":"nowhere","every":"1s","body":1}`, "", "", 404},
		{`[]`, "", "", 400},
		{``, "", "", 400},
	} {
		a.do("PUT", report, one.body).problem(one.status, one.field, one.detail)
	}
	a.do("PUT", "/v1/schedules/No%20name", weekdays).want(400)
	if n := a.registry.Snapshot().Schedules.Len(); n != 0 {
		t.Errorf("%d schedules were stored", n)
	}
}

// TestATokenHasOnlySchedulesOfItsTopics: others do not exist for it, and their names are taken.
func TestATokenHasOnlySchedulesOfItsTopics(t *testing.T) {
	a := newScheduling(t)
	a.do("PUT", report, weekdays).want(201)
	for _, one := range []struct {
		topics string
		rights []registry.Right
		want   map[string]string // by method and path
	}{
		{"shop.mail", registry.Rights, map[string]string{
			"GET ": "schedule_not_found", "DELETE ": "schedule_not_found", "POST /run": "schedule_not_found", "PUT ": "forbidden",
		}},
		{"shop.orders", []registry.Right{registry.RightRead, registry.RightPush}, map[string]string{
			"GET ": "", "PUT ": "forbidden", "DELETE ": "forbidden", "POST /pause": "forbidden", "POST /run": "forbidden",
		}},
		{"shop.orders", []registry.Right{registry.RightSchedule}, map[string]string{
			"GET ": "forbidden", "PUT ": "forbidden", "POST /run": "forbidden", "POST /backfill": "forbidden",
		}},
	} {
		a.token = a.registry.grant("some "+one.topics, one.topics, one.rights...)
		for request, code := range one.want {
			var method, path string
			_, _ = fmt.Sscan(request, &method, &path)
			r := a.do(method, report+path, weekdays)
			if code == "" {
				r.want(200)
			} else {
				r.code(code)
			}
		}
	}
	a.token = a.registry.grant("mail", "shop.mail", registry.Rights...)
	mail := registry.NewTopic("shop.mail")
	mail.CallbackURL = "http://127.0.0.1:1"
	if _, err := a.registry.PutTopics(t.Context(), "me", []registry.Topic{mail}); err != nil {
		t.Fatal(err)
	}
	a.do("PUT", report, `{"topic":"shop.mail","every":"1m","body":1}`).want(409).code("schedule_exists")
	for topics, n := range map[string]int{"shop.mail": 0, "shop.orders": 1} {
		a.token = a.registry.grant("reads "+topics, topics, registry.RightRead)
		if list := a.do("GET", "/v1/schedules", "").want(200).json()["schedules"].([]any); len(list) != n {
			t.Errorf("a token for %s lists %v", topics, list)
		}
	}
	a.do("GET", "/v1/schedules/nowhere", "").code("schedule_not_found")
}

// TestScheduleActions: what is asked of the schedules, and what is refused before.
func TestScheduleActions(t *testing.T) {
	a := newScheduling(t)
	a.do("PUT", report, weekdays).want(201)
	asked := func(want string) {
		t.Helper()
		if got := a.schedules.asked; got != want {
			t.Errorf("asked to %s, want %s", got, want)
		}
	}
	a.do("POST", report+"/pause", "").want(200)
	asked("pause report by token:schedules 0001-01-01T00:00:00Z")
	a.do("POST", report+"/pause", `{"until":"2030-01-01T00:00:00Z"}`).want(200)
	asked("pause report by token:schedules 2030-01-01T00:00:00Z")
	a.do("POST", report+"/pause", `{"until":"2020-01-01T00:00:00Z"}`).problem(422, "until", "future")
	a.do("POST", report+"/resume", `{"catch_up":true}`).want(200)
	asked("resume report true")
	a.do("POST", report+"/resume", `{"catch_up":1}`).problem(400, "catch_up")
	if ran := a.do("POST", report+"/run", "").want(201).json(); ran["id"] != "report!2026-11-23T10:00:00.123Z" {
		t.Errorf("%v", ran)
	}
	const period = `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","overlap":"skip","dry_run":true}`
	if done := a.do("POST", report+"/backfill", period).want(200).json(); done["existing"] != 2.0 || done["left_out"] != 3.0 {
		t.Errorf("%v", done)
	}
	asked("backfill report 2026-01-01 24h0m0s skiptrue")
	a.schedules.fail = fmt.Errorf("x: %w", recurring.ErrTopicOffline)
	a.do("POST", report+"/run", "").want(409).code("topic_offline")
	a.schedules.fail = &store.UnavailableError{Reason: "down", Err: errors.New("refused")}
	a.do("DELETE", report, "").want(503).code("unavailable")
	asked("delete report by token:schedules")
	a.schedules.fail = nil
	a.do("DELETE", report, "").want(204)
}

// TestATokenMakesSoManySchedules and no more; it may change those that it has.
func TestATokenMakesSoManySchedules(t *testing.T) {
	a := newScheduling(t)
	for n := range 1000 {
		a.registry.edit(func(s *registry.Snapshot) {
			def := registry.NewSchedule(fmt.Sprint("s", n))
			def.Topic, def.MadeBy = "shop.orders", s.Tokens[registry.HashToken(a.token)].ID
			s.Schedules = s.Schedules.With(def.Name, &def)
		})
	}
	a.do("PUT", report, weekdays).want(409).code("schedule_limit")
	a.do("PUT", "/v1/schedules/s7", weekdays).want(200)
}
