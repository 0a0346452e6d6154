package alert

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnAlertThatIsHeldIsRecovering: from the first round without a finding until it ends or comes back, neither its
// title nor its causes say that the problem goes on. A pause ends at once.
func TestAnAlertThatIsHeldIsRecovering(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, ann)
		open := Finding{Topic: "a", Cause: Cause{Kind: "breaker", Severity: Critical, N: 12, Answer: "500"}}
		paused := Finding{Topic: "b", Cause: Cause{Kind: "paused", Severity: Info, N: 3}}
		list := []Finding{open, paused}
		d.happens = func(time.Duration) []Finding { return list }
		says := func() (text string) {
			for _, a := range d.store.open {
				text += a.Title(english(t)("en")) + ": " + strings.Join(a.Details(english(t)("en"), brief), "; ") + "\n"
			}
			return text
		}
		d.pass(t, 20*time.Second)
		if text := says(); !strings.Contains(text, "only one probe") || !strings.Contains(text, "b is paused") {
			t.Errorf("it says %s", text)
		}
		list = nil
		d.pass(t, 10*time.Second)
		if text := says(); text != "a is recovering: recovering, was: Endpoint failing\n" {
			t.Errorf("after it recovered, it says %s", text)
		}
		list = []Finding{open}
		d.pass(t, 10*time.Second)
		if text := says(); !strings.Contains(text, "only one probe") {
			t.Errorf("after it came back, it says %s", text)
		}
		list = nil
		d.pass(t, time.Minute)
		if text := says(); text != "" || len(d.store.ended) != 2 {
			t.Errorf("after it ended, it says %s", text)
		}
	})
}

// TestAnOpenAlertsNumbersAreRecent: pages and commands show what is stored.
func TestAnOpenAlertsNumbersAreRecent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, ann)
		d.happens = func(at time.Duration) []Finding {
			return []Finding{{Topic: "a", Cause: Cause{Kind: "late", Severity: Warning, N: 1 + int64(at/time.Second)}}}
		}
		for range 24 {
			d.pass(t, defaultEvery)
			passed := time.Since(d.began)
			for _, a := range d.store.open {
				if n := time.Duration(a.Causes[0].N) * time.Second; passed-n > 3*defaultEvery {
					t.Errorf("after %s it shows the number of %s", passed, n)
				}
			}
		}
	})
}
