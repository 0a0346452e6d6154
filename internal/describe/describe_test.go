package describe

import (
	"testing"
	"time"
)

func TestLongDistancesAreInDays(t *testing.T) {
	for d, want := range map[time.Duration]string{
		90*24*time.Hour - time.Second: "in 90 days", -72 * time.Hour: "3 days ago", 47 * time.Hour: "in 47h",
	} {
		if got := distance(d); got != want {
			t.Errorf("%s: %q, not %q", d, got, want)
		}
	}
}
