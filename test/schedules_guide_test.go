package test

import "testing"

// TestSchedulesOfTheGuide runs the commands of docs/guides/schedules.md in their order, and finds what the page says
// that one sees.
func TestSchedulesOfTheGuide(t *testing.T) {
	t.Parallel()
	followGuide(t, "schedules.md",
		"", `"name":"reports"`, `T00:00:00.000Z"`, "0 8 * * 1-5 Asia/Shanghai", "schedule report unchanged",
		"pushed reports report!", "schedule report is paused", "schedule report is active", "5 occurrences; none was pushed",
		"deleted schedule report")
}
