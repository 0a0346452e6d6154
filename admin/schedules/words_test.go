package schedules

import (
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/schedule/calendar"
)

// TestTheNextChangeOfClocks is not the end of a year, at which the zone data may change their rule.
func TestTheNextChangeOfClocks(t *testing.T) {
	t.Parallel()
	for zone, want := range map[string]string{
		"Europe/Berlin": "2027-03-28T01:00:00Z", "America/New_York": "2027-03-14T07:00:00Z", "Asia/Shanghai": "", "UTC": "",
	} {
		at, err := calendar.Zone(zone)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		change := changeAfter(time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC).In(at))
		if !change.IsZero() {
			got = change.UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", zone, got, want)
		}
	}
}
