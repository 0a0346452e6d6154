package main

import (
	"strings"
	"testing"
)

// TestSchedulesOnTheCommandLine: each command sends the API's request.
func TestSchedulesOnTheCommandLine(t *testing.T) {
	f := newFakeAPI(t)
	f.schedules["report"] = map[string]any{"name": "report", "topic": "t", "every": "1h", "body": 1}
	for _, action := range []string{"pause", "resume"} {
		f.answers["POST /v1/schedules/report/"+action] = answer{200, scheduleJSON}
	}
	f.answers["POST /v1/schedules/report/run"] = answer{201, `{"topic":"t","id":"x"}`}
	f.answers["POST /v1/schedules/report/backfill"] = answer{200, `{"occurrences":[],"pushed":0,"existing":0,"left_out":0}`}
	for line, want := range map[string]string{
		"pause report": "POST /v1/schedules/report/pause {}",
		"pause report --until 2026-01-05T08:00:00+08:00": `POST /v1/schedules/report/pause {"until":"2026-01-05T00:00:00.000Z"}`,
		"resume report":            "POST /v1/schedules/report/resume {}",
		"resume report --catch-up": `POST /v1/schedules/report/resume {"catch_up":true}`,
		"run report":               "POST /v1/schedules/report/run",
		"backfill report --from 2026-01-01T00:00:00Z --to 1767312000000 --overlap skip --dry-run": "POST /v1/schedules/report/backfill " +
			`{"from":"2026-01-01T00:00:00.000Z","to":"2026-01-02T00:00:00.000Z","overlap":"skip","dry_run":true}`,
		"delete report": "DELETE /v1/schedules/report",
	} {
		got := f.wakecall(t, "", append([]string{"schedule"}, strings.Fields(line)...)...)
		if sent := f.changes(); got.code != 0 || len(sent) != 1 || sent[0] != want {
			t.Errorf("%s: code %d, %s sent %q", line, got.code, got.err, sent)
		}
	}
	for line, says := range map[string]string{
		"show": "SCHEDULE is required", "pause x --until soon": "--until", "pause x --until=": "--until must not be empty",
		"backfill x --from 2026-01-01T00:00:00Z": "--from and --to are required", "apply": "-f FILE is required",
		"backfill x --from a --to b": "--from", "list x": `unexpected argument "x"`,
	} {
		got := f.wakecall(t, "", append([]string{"schedule"}, strings.Fields(line)...)...)
		if sent := f.changes(); got.code != exitUsage || !strings.Contains(got.err, says) || len(sent) > 0 {
			t.Errorf("%s: code %d, %s sent %q", line, got.code, got.err, sent)
		}
	}
	got := f.wakecall(t, "", "schedule", "run", "none")
	if got.code != exitFailed || !strings.Contains(got.err, "`wakecall schedule list` lists them") {
		t.Errorf("code %d: %s", got.code, got.err)
	}
}

// TestAShownScheduleCanBeApplied.
func TestAShownScheduleCanBeApplied(t *testing.T) {
	f := newFakeAPI(t)
	file := strings.Replace(reportFile, "{n: 1}", "{n: '<1> & 2'}", 1)
	if got := f.wakecall(t, file, "schedule", "apply", "-f", "-"); got.out != "schedule report created\n" {
		t.Fatal(got.out, got.err)
	}
	if got := f.wakecall(t, file, "schedule", "apply", "-f", "-"); got.out != "schedule report unchanged\n" {
		t.Errorf("again: %s%s", got.out, got.err)
	}
	shown := f.wakecall(t, "", "schedule", "show", "report", "--yaml")
	if got := f.wakecall(t, shown.out, "schedule", "apply", "-f", "-"); got.out != "schedule report unchanged\n" {
		t.Errorf("%s%s after\n%s", got.out, got.err, shown.out)
	}
}
