package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const scheduleJSON = `{"name":"report","topic":"t","cron":"0 8 * * 1-5","time_zone":"Asia/Shanghai","body":{"n":1},
	"jitter":"0s","missed":"last","overlap":"skip","state":"paused","paused_until":"2026-12-01T00:00:00.000Z",
	"shard":"redis-1","created_at":"2026-01-02T03:04:05.678Z","updated_at":"2026-01-02T03:04:05.678Z",
	"next":["2026-12-01T00:00:00.000Z"],"left_out":{"late":1,"overlap":2,"paused":3,"limit":4,"edited":5},
	"last":[{"id":"report@2026-11-27T00:00:00Z","scheduled_for":"2026-11-27T00:00:00.000Z","state":"done"}]}`

// TestSchedules: what is sent about schedules, and what the answers say.
func TestSchedules(t *testing.T) {
	ctx, sent, answer, status := t.Context(), "", "", 0
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = strings.TrimSpace(r.Method + " " + r.RequestURI + " " + string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}), 0)
	is := func(s *Schedule, err error) error {
		if err == nil && (s.Name != "report" || s.Cron != "0 8 * * 1-5" || len(s.Next) != 1 ||
			*s.LeftOut != (LeftOut{1, 2, 3, 4, 5}) || s.Last[0].State != "done" || s.PausedUntil.Month() != time.December) {
			t.Errorf("%+v", s)
		}
		return err
	}
	at := time.Date(2026, 12, 1, 0, 0, 0, 500, time.UTC)
	for want, x := range map[string]struct {
		status int
		answer string
		do     func() error
	}{
		"GET /v1/schedules/report": {200, scheduleJSON, func() error { return is(c.Schedule(ctx, "report")) }},
		`PUT /v1/schedules/report {"topic":"t","cron":"0 8 * * 1-5","time_zone":"Asia/Shanghai","body":{ "n": "<" }}`: {
			201, scheduleJSON, func() error {
				s, created, err := c.PutSchedule(ctx, Schedule{
					Name: "report", Topic: "t", Cron: "0 8 * * 1-5", TimeZone: "Asia/Shanghai",
					Body: json.RawMessage(`{ "n": "<" }`), Shard: "redis-1", CreatedAt: &at, Next: []time.Time{at},
				})
				if !created {
					t.Error("it was not created")
				}
				return is(s, err)
			},
		},
		`PUT /v1/schedules/report {"topic":"t","every":"15m0s","start_at":"2026-12-01T00:00:00.0000005Z","body":1}`: {
			200, scheduleJSON, func() error {
				s, created, err := c.PutSchedule(ctx, Schedule{
					Name: "report", Topic: "t", Every: Duration(15 * time.Minute), StartAt: &at, Body: json.RawMessage(`1`),
				})
				if created {
					t.Error("it was created")
				}
				return is(s, err)
			},
		},
		"DELETE /v1/schedules/a%20b": {204, "", func() error { return c.DeleteSchedule(ctx, "a b") }},
		"POST /v1/schedules/report/pause {}": {200, scheduleJSON, func() error {
			return is(c.PauseSchedule(ctx, "report", time.Time{}))
		}},
		`POST /v1/schedules/report/pause {"until":"2026-12-01T00:00:00.001Z"}`: {200, scheduleJSON, func() error {
			return is(c.PauseSchedule(ctx, "report", at))
		}},
		"POST /v1/schedules/report/resume {}": {200, scheduleJSON, func() error {
			return is(c.ResumeSchedule(ctx, "report", false))
		}},
		`POST /v1/schedules/report/resume {"catch_up":true}`: {200, scheduleJSON, func() error {
			return is(c.ResumeSchedule(ctx, "report", true))
		}},
		"POST /v1/schedules/report/run": {201, `{"topic":"t","id":"report!2026-11-23T10:00:00.123Z"}`, func() error {
			run, err := c.RunSchedule(ctx, "report")
			if err == nil && *run != (ScheduleRun{"t", "report!2026-11-23T10:00:00.123Z"}) {
				t.Errorf("%+v", run)
			}
			return err
		}},
		`POST /v1/schedules/report/backfill {"from":"2026-12-01T00:00:00.000Z","to":"2026-12-01T00:00:00.001Z",` +
			`"overlap":"skip","dry_run":true}`: {
			200, `{"occurrences":["2026-12-01T00:00:00.000Z"],"pushed":1,"existing":2,"left_out":3}`, func() error {
				b, err := c.BackfillSchedule(ctx, "report", Backfill{
					From: at.Truncate(time.Second), To: at, Overlap: "skip", DryRun: true,
				})
				if err == nil && (len(b.Occurrences) != 1 || b.Pushed != 1 || b.Existing != 2 || b.LeftOut != 3) {
					t.Errorf("%+v", b)
				}
				return err
			},
		},
	} {
		status, answer = x.status, x.answer
		if err := x.do(); err != nil || sent != want {
			t.Errorf("sent %s, want %s: %v", sent, want, err)
		}
	}
	if _, _, err := c.PutSchedule(ctx, Schedule{Name: "x", Topic: "t", Cron: "@daily"}); err == nil {
		t.Error("a schedule without a body was sent")
	}
}

// TestAllPagesOfSchedulesAreRead.
func TestAllPagesOfSchedulesAreRead(t *testing.T) {
	var asked []string
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.RequestURI)
		page := `{"schedules":[` + scheduleJSON + `],"next":"report"}`
		if r.URL.Query().Has("cursor") {
			page = `{"schedules":[` + scheduleJSON + `]}`
		}
		_, _ = io.WriteString(w, page)
	}), 0)
	list, err := c.Schedules(t.Context(), "t")
	want := []string{"/v1/schedules?limit=1000&topic=t", "/v1/schedules?cursor=report&limit=1000&topic=t"}
	if err != nil || len(list) != 2 || !slices.Equal(asked, want) {
		t.Errorf("%d schedules by %q: %v", len(list), asked, err)
	}
}

// TestRefusalsOfSchedulesHaveCodes.
func TestRefusalsOfSchedulesHaveCodes(t *testing.T) {
	c, _ := newServer(t, http.StatusConflict, `{"status":409,"code":"schedule_exists"}`)
	_, _, err := c.PutSchedule(t.Context(), Schedule{Name: "x", Topic: "t", Cron: "@daily", Body: json.RawMessage(`1`)})
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeScheduleExists || !errors.Is(err, ErrConflict) {
		t.Errorf("%v", err)
	}
}
