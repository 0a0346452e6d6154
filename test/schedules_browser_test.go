package test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
)

// TestAScheduleIsMadeInTheBrowser: the form says what is wrong while it is typed, and what comes next; the page shows
// what came, and runs, pauses, backfills and deletes the schedule.
func TestAScheduleIsMadeInTheBrowser(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	topic := i.topic(t, harness.Status(http.StatusOK), nil)
	b := i.signIn(t)
	b.Open("/schedules")
	b.Shows(soon, "No schedules yet")
	b.Submit(`.wk-empty a[href$="/schedules/-/new"]`)
	b.Fill(`#f-name`, "report")
	b.Fill(`#f-topic`, topic)
	b.Fill(`#f-time_zone`, "Europe/Berlin")
	b.Fill(`#f-cron`, "0 8 * * 9")
	b.Shows(soon, "column 9: day of the week must be 0 to 7")
	shots(b, "schedule-wrong")
	b.Fill(`#f-cron`, "0 8 * * 1-5")
	b.Shows(soon, "at 08:00, Mon to Fri", "Wall-clock times: each occurs once.", "08:00 +0")
	shots(b, "schedule-preview")
	b.Open("/schedules/-/new")
	b.Fill(`#f-name`, "report")
	b.Fill(`#f-topic`, topic)
	b.Fill(`#f-every`, "1s")
	b.Click(`details summary`)
	b.Fill(`#f-start_at`, "2026-01-01T00:00") // a day has more occurrences than a backfill may have
	b.Shows(soon, "every 1s", "changes of clocks do not matter")
	b.Submit(`form button.btn-primary[type="submit"]`)
	b.Shows(soon, "Schedule report was created.", "Next five", "delivered") // the live part shows what came

	b.Submit(`form[action$="/schedules/report/run"] button`)
	b.Shows(soon, "report: job report!")
	b.Submit(`form[action$="/schedules/report/pause"] button`)
	b.Shows(soon, "report is paused.", "None while it is paused.")
	shots(b, "schedule-paused")

	b.Submit(`a[href$="/schedules/report/backfill"]`)
	b.Expect("422")
	b.Submit(`form button.btn-primary`)
	b.Shows(soon, "the period has more than 1000 occurrences")
	shots(b, "schedule-backfill")
	from := time.Now().Truncate(time.Minute).Add(-2 * time.Minute)
	b.Fill(`#f-from`, from.Format("2006-01-02T15:04"))
	b.Fill(`#f-to`, from.Add(time.Minute).Format("2006-01-02T15:04"))
	b.Submit(`form button.btn-primary`)
	b.Shows(soon, "60 occurrences")
	b.Submit(`form button[name="sure"]`)
	b.Shows(soon, "report: ", "existed already")
	b.Open("/schedules/report")
	b.Submit(`.list-group a[href*="/jobs/report"]`)
	b.Shows(soon, "Occurrence of", "report", "for")
	b.Submit(`a[href$="/schedules/report"]`)

	b.Click(`form[action$="/schedules/report/delete"] button`)
	b.Shows(soon, "Delete the schedule report?")
	b.Fill(`#wk-confirm-word`, "report")
	b.Submit(`#wk-confirm [data-ok]`)
	b.Shows(soon, "Schedule report was deleted.", "No schedules yet")
	b.Open("/audit?object=schedule/report")
	b.Shows(soon, "put", "run", "pause", "delete", "user/admin")
	if text := b.Text(); !strings.Contains(text, "report!") {
		t.Errorf("the audit trail has no id of the job that was run:\n%s", text)
	}
}
