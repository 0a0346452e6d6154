package schedules_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/queue/recurring"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// open serves an admin to a user, with the topic mail.report and some schedules of it.
func open(t *testing.T, user string, list ...registry.Schedule) (*admintest.Site, *admintest.Schedules) {
	t.Helper()
	fake := &admintest.Schedules{Known: map[string]*store.Cursor{}}
	s := admintest.Open(t, func(o *admin.Options) {
		fake.Registry = o.Registry
		o.Schedules = fake
	})
	s.AddTopic("mail.report")
	for _, def := range list {
		_, _, err := fake.Put(t.Context(), "test", def, func(*registry.Schedule) error { return nil })
		admintest.Must(t, err)
	}
	return s.As(user), fake
}

func schedule(name, cron, zone string) registry.Schedule {
	s := registry.NewSchedule(name)
	s.Topic, s.Cron, s.TimeZone, s.Body = "mail.report", cron, zone, []byte(`{"to":"ops"}`)
	return s
}

// form returns the fields of a schedule's form, and more pairs of name and value.
func form(pairs ...string) []string {
	return append([]string{"name", "report", "topic", "mail.report", "body", "{}", "time_zone", "Asia/Shanghai",
		"overlap", "skip", "missed", "last"}, pairs...)
}

func has(t *testing.T, body string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("the page does not show %q:\n%s", text, body)
		}
	}
}

// TestAScheduleIsMadePausedRunAndDeleted, and the audit trail has all of it.
func TestAScheduleIsMadePausedRunAndDeleted(t *testing.T) {
	t.Parallel()
	s, fake := open(t, "root")
	s.Shows("/schedules", "No schedules yet", `href="/schedules/-/new"`)
	s.Shows("/schedules/-/new?topic=mail.report", `value="mail.report"`, "Enter a cron expression")
	_, body := s.Post("/schedules/-/new", form("cron", "0 8 * * 1-5", "headers", "X-Team: ops", "jitter", "30s",
		"max_late", "1h30m")...)
	has(t, body, "Schedule report was created.", "at 08:00, Mon to Fri, Asia/Shanghai", "Next five", "08:00 &#43;08:00",
		"No occurrence yet.", "X-Team: ops", "1h 30m", "The clocks of Asia/Shanghai do not change.", "Time zones as of 20")
	s.Shows("/schedules", `href="/schedules/report"`, "at 08:00, Mon to Fri", "Asia/Shanghai")
	s.Shows("/topics/mail.report", `href="/schedules?topic=mail.report"`)

	_, body = s.Post("/schedules/report/pause", "until", "2033-01-01T00:00")
	has(t, body, "report is paused.", ">paused</span> until", "2033-01-03 08:00")
	_, body = s.Post("/schedules/report/resume")
	has(t, body, "report is active again.")
	_, body = s.Post("/schedules/report/pause")
	has(t, body, "report is paused.", "None while it is paused.")
	_, body = s.Post("/schedules/report/resume", "catch_up", "on")
	has(t, body, "report is active again.")
	_, body = s.Post("/schedules/report/run")
	has(t, body, "report: job report!2026-11-23T10:00:00.001Z was pushed.")
	if !fake.CaughtUp || fake.Runs != 1 {
		t.Errorf("caught up: %v, runs: %d", fake.CaughtUp, fake.Runs)
	}
	s.Shows("/schedules/report/edit", "0 8 * * 1-5", `value="30s"`, `value="1h30m0s"`, "X-Team: ops",
		`<details class="card" open`)
	_, body = s.Post("/schedules/report/edit", form("cron", "", "every", "3661s")...)
	has(t, body, "Schedule report was saved.", "every 1h 1m")
	s.Shows("/schedules/report/edit", `value="1h1m1s"`) // not rounded
	_, body = s.Post("/schedules/report/delete")
	has(t, body, "Schedule report was deleted.")

	trail, err := s.Registry.Audit(t.Context(), registry.AuditFilter{Object: "schedule/report"})
	var actions []string
	for _, e := range trail {
		actions = append(actions, e.Actor+" "+e.Action)
	}
	admintest.Must(t, err)
	if want := "user/root delete,user/root put,user/root run,user/root resume,user/root pause," +
		"user/root resume,user/root pause,user/root put"; want !=
		strings.Join(actions, ",") {
		t.Errorf("the audit trail has %v", actions)
	}
	s.Shows("/audit?object=schedule/report", "report!2026-11-23T10:00:00.001Z")
}

// TestAFormSaysWhatIsWrongWithASchedule, with the position in the cron expression.
func TestAFormSaysWhatIsWrongWithASchedule(t *testing.T) {
	t.Parallel()
	s, fake := open(t, "root", schedule("taken", "@hourly", "UTC"))
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{form("cron", "0 8 * * 9"), "column 9: day of the week must be 0 to 7"},
		{form("cron", "0 8 * * 1", "every", "5m"), "exactly one of cron and every is required"},
		{form(), "exactly one of cron and every is required"},
		{form("every", "soon"), "must be a duration"},
		{form("cron", "@daily", "topic", "nowhere"), "topic &#34;nowhere&#34; does not exist"},
		{form("cron", "@daily", "body", "{"), "required; any JSON value"},
		{form("cron", "@daily", "headers", "no colon"), "has no colon"},
		{form("cron", "@daily", "start_at", "monday"), "is not a time such as"},
		{form("cron", "@daily", "time_zone", "Mars/Olympus"), "unknown time zone"},
		{form("cron", "@daily", "name", "No Name"), "is not a valid name"},
		{form("cron", "@daily", "name", "taken"), "schedule taken already exists"},
		{form("cron", "@daily", "jitter", "25h"), "must be between"},
	} {
		// the last value of a name counts
		last := map[string]string{}
		for i := 0; i < len(c.fields); i += 2 {
			last[c.fields[i]] = c.fields[i+1]
		}
		var fields []string
		for name, value := range last {
			fields = append(fields, name, value)
		}
		status, body := s.Post("/schedules/-/new", fields...)
		if status != http.StatusUnprocessableEntity || !strings.Contains(body, c.want) {
			t.Errorf("%v: %d, not %q\n%s", c.fields, status, c.want, body)
		}
	}
	if n := fake.Registry.Snapshot().Schedules.Len(); n != 1 {
		t.Errorf("there are %d schedules", n)
	}
}

// TestARuleIsPreviewedWhileItIsTyped: in words, its next five, what changes of clocks mean, and where a mistake is.
func TestARuleIsPreviewedWhileItIsTyped(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "root")
	for _, c := range []struct{ cron, every, zone, want string }{
		{"0 8 * * 1-5", "", "Europe/Berlin", "at 08:00, Mon to Fri"},
		{"0 8 * * 1-5", "", "Europe/Berlin", "Wall-clock times: each occurs once."},
		{"*/15 * * * *", "", "Europe/Berlin", "every 15 minutes"},
		{"*/15 * * * *", "", "Europe/Berlin", "an hour that is repeated counts twice"},
		{"* * * * *", "", "UTC", "every minute"},
		{"5,35 * * * *", "", "UTC", "at minute 05, 35 of every hour"},
		{"*/10 9-17 * * *", "", "UTC", "every 10 minutes, in the hours 09 to 17, every day"},
		{"30 6,18 1 */6 *", "", "UTC", "at 06:30, 18:30, on day 1 of the month, in January, July"},
		{"0 */2 * * *", "", "UTC", "every 2 hours"},
		{"@hourly", "", "UTC", "every hour"},
		{"0 8 * * *", "", "Europe/Berlin", "The next change:"},
		{"0 8 * * *", "", "Asia/Shanghai", "The clocks of Asia/Shanghai do not change."},
		{"0 0 13 * 5", "", "UTC", "on day 13 of the month and on Fri"},
		{"0 0 * * sun,sat", "", "UTC", "at 00:00, Sat, Sun"},
		{"", "90s", "UTC", "every 1m 30s"},
		{"", "", "UTC", "Enter a cron expression"},
		{"0 8 30 2 *", "", "UTC", "never"},
		{"0 0 ? * *", "", "UTC", "0 0 ? * *\n    ^"},
		{"0 8 * * *", "", "Mars/Olympus", "unknown time zone"},
		{"", "1ms", "UTC", "must be whole seconds"},
	} {
		res, body := s.Part("/schedules/-/preview", "cron", c.cron, "every", c.every, "time_zone", c.zone)
		if res.StatusCode != http.StatusOK || !strings.Contains(body, c.want) {
			t.Errorf("%s%s: %d, not %q\n%s", c.cron, c.every, res.StatusCode, c.want, body)
		}
	}
	_, body := s.Part("/schedules/-/preview", "cron", "@hourly", "time_zone", "UTC")
	if n := strings.Count(body, "<li>"); n != 5 {
		t.Errorf("the preview has %d occurrences:\n%s", n, body)
	}
	s.Post("/language", "choice", "zh-Hans")
	_, body = s.Part("/schedules/-/preview", "cron", "0 8 * * 1-5", "time_zone", "Asia/Shanghai")
	has(t, body, "周一至周五 08:00", "时区数据版本")
}

// TestAScheduleThatSomebodyElseChanged is not overwritten unseen.
func TestAScheduleThatSomebodyElseChanged(t *testing.T) {
	t.Parallel()
	s, fake := open(t, "root", schedule("report", "0 8 * * *", "UTC"))
	old := fake.Registry.Snapshot().Schedules.Get("report").Revision
	_, _, err := fake.Put(t.Context(), "test", schedule("report", "0 9 * * *", "UTC"),
		func(*registry.Schedule) error { return nil })
	admintest.Must(t, err)
	status, body := s.Post("/schedules/report/edit", form("cron", "0 7 * * *", "revision", fmt.Sprint(old))...)
	if status != http.StatusConflict {
		t.Errorf("status %d", status)
	}
	has(t, body, "Somebody else changed this schedule", `value="0 7 * * *"`, "&#34;0 9 * * *&#34;", "&#34;0 7 * * *&#34;")
	if cron := fake.Registry.Snapshot().Schedules.Get("report").Cron; cron != "0 9 * * *" {
		t.Errorf("the rule is %s", cron)
	}
	revision := regexp.MustCompile(`name="revision" value="(\d+)"`).FindStringSubmatch(body)
	_, body = s.Post("/schedules/report/edit", form("cron", "0 7 * * *", "revision", revision[1])...)
	has(t, body, "was saved")
	s.Post("/schedules/report/pause")
	_, body = s.Post("/schedules/report/edit", form("cron", "0 7 * * *", "revision", revision[1])...)
	has(t, body, "was saved", ">paused</span>") // the form does not show the state
}

// TestAScheduleSaysWhatCameOfIt: the last occurrences with links to their jobs, what was left out and why, and that a
// shard does not respond.
func TestAScheduleSaysWhatCameOfIt(t *testing.T) {
	t.Parallel()
	s, fake := open(t, "look", schedule("report", "@daily", "UTC"))
	at := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	fake.Known["report"] = &store.Cursor{
		Topic: "mail.report", At: at, LeftOut: map[string]int{"late": 1234, "overlap": 2},
		Last: []store.Occurrence{
			{ID: "report@2026-11-21T00:00:00Z", For: at.AddDate(0, 0, -1).UnixMilli(), State: "dead"},
			{ID: "report@2026-11-22T00:00:00Z", For: at.UnixMilli(), State: "done"},
		},
	}
	body := s.Shows("/schedules/report", `href="/topics/mail.report/jobs/report@2026-11-22T00:00:00Z"`, ">delivered<",
		">dead<", "1,234", "It came too late to be pushed", "The occurrence before it had not ended.")
	if strings.Index(body, "2026-11-22T00") > strings.Index(body, "2026-11-21T00") {
		t.Error("the newest occurrence is not the first")
	}
	for _, needs := range []string{"/pause", "/run", "/backfill", "/edit", "/delete"} {
		if strings.Contains(body, `/schedules/report`+needs) {
			t.Errorf("a viewer sees %s", needs)
		}
	}
	s.Shows("/schedules", ">delivered<")
	fake.Away = &store.UnavailableError{Reason: "down", Err: errors.New("refused")}
	s.Shows("/schedules/report", "Shard a does not respond.", "Next five", ">Unknown<")
	s.Shows("/schedules", "Shard a does not respond", "report")
	s.As("ops")
	fake.Away = recurring.ErrTopicOffline
	if _, body := s.Post("/schedules/report/run"); !strings.Contains(body, "mail.report is offline and accepts no jobs") {
		t.Errorf("a run while the topic is offline:\n%s", body)
	}
	fake.Away = &store.UnavailableError{Reason: "down", Err: errors.New("refused")}
	if status, _ := s.Post("/schedules/report/pause"); status != http.StatusServiceUnavailable {
		t.Errorf("a pause while the shard is down: %d", status)
	}
	if status, _ := s.Get("/schedules/nowhere"); status != http.StatusNotFound {
		t.Errorf("a schedule that does not exist: %d", status)
	}
}

// TestABackfillIsShownBeforeItIsDone, and the audit trail has what it did.
func TestABackfillIsShownBeforeItIsDone(t *testing.T) {
	t.Parallel()
	s, fake := open(t, "ops", schedule("report", "@daily", "UTC"))
	fake.Would = recurring.Backfilled{Pushed: 2, There: 1, Occurrences: []time.Time{
		time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC),
	}}
	s.Shows("/schedules/report/backfill", "at most 1,000", "Show what would be pushed")
	period := []string{"from", "2026-11-01T00:00", "to", "2026-11-04T00:00", "overlap", "allow"}
	_, body := s.Post("/schedules/report/backfill", period...)
	has(t, body, "3 occurrences", "2026-11-03 00:00 &#43;00:00", "Push 3 jobs")
	if fake.Pushed != 0 {
		t.Error("a dry run pushed jobs")
	}
	_, body = s.Post("/schedules/report/backfill", append(period, "sure", "on")...)
	has(t, body, "report: 2 pushed, 1 existed already, 0 left out.")
	if fake.Pushed != 2 {
		t.Errorf("%d jobs were pushed", fake.Pushed)
	}
	trail, err := s.Registry.Audit(t.Context(), registry.AuditFilter{Action: "backfill"})
	if err != nil || len(trail) != 1 || trail[0].Object != "schedule/report" || trail[0].Actor != "user/ops" ||
		string(trail[0].After) != `{"existing":1,"from":"2026-11-01T00:00:00Z","left_out":0,"pushed":2,`+
			`"to":"2026-11-04T00:00:00Z"}` {
		t.Errorf("the audit trail has %+v, %v", trail, err)
	}
	for _, wrong := range [][]string{
		{"from", "", "to", "2026-11-04T00:00"}, {"from", "2026-11-04T00:00", "to", "2026-11-04T00:00"},
	} {
		if status, body := s.Post("/schedules/report/backfill", wrong...); status != http.StatusUnprocessableEntity {
			t.Errorf("%v: %d\n%s", wrong, status, body)
		}
	}
}

// TestAWeekShowsCollisions, and says what it does not count.
func TestAWeekShowsCollisions(t *testing.T) {
	t.Parallel()
	paused := schedule("paused", "0 8 * * *", "UTC")
	paused.State = registry.TopicPaused
	s, _ := open(t, "look", schedule("a", "0 8 * * *", "UTC"), schedule("b", "0 8 * * *", "UTC"),
		schedule("c", "0 8 * * *", "UTC"), schedule("d", "0 8 * * *", "UTC"), schedule("e", "30 8 * * *", "UTC"),
		schedule("often", "* * * * *", "UTC"), paused)
	body := s.Shows("/schedules/-/week", "8:00–8:59: 5 occurrences. Most at 08:00: 4.", "4 occurrences:",
		`href="/schedules/a"`, "and 1 more", "1 schedule is left out, because it has more than 1,000")
	if n := strings.Count(body, ">5</td>"); n != 7 {
		t.Errorf("%d hours have five occurrences:\n%s", n, body)
	}
	if body := s.Shows("/schedules/-/week?q=often&topic=mail.report"); strings.Contains(body, "/schedules/a") {
		t.Errorf("the filter does not matter:\n%s", body)
	}
	s.Shows("/schedules?q=OFTEN", "every minute", "1–1 of 1")
	s.Shows("/schedules?q=nobody", "No matching schedules.")
	s.Shows("/schedules?state=paused", "paused")
	s.Shows("/search?id=ofte", `href="/schedules/often"`)
	if status, body := s.Get("/search?id=often"); status != http.StatusOK || !strings.Contains(body, "every minute") {
		t.Errorf("a search for the name: %d\n%s", status, body)
	}
}
