package alert

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/observe/forecast"
)

func TestMessagesAreInTheLanguageOfTheSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDay(t, "ann@test.example")
		d.settings.Language = "zh-Hans"
		d.happens = func(time.Duration) []Finding { return []Finding{fails("a"), isLate("a"), down} }
		d.pass(t, time.Minute)
		if text := d.log("ann@test.example"); !strings.Contains(text, "分片 a 无法访问") ||
			!strings.Contains(text, "返回 429") || strings.Contains(text, "alerts.") ||
			strings.Contains(text, "endpoint") {
			t.Errorf("the mail is%s", text)
		}
	})
}

// TestLatenessSaysWhatIsKnown: the text leaves out waiting jobs, or calls, if there are none.
func TestLatenessSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Cause{
		"p99 of the callbacks of the last minute: 28s, obj":     {P99: 28 * time.Second},
		"8 jobs are ready, the oldest for 1m38s; objective: 5s": {N: 8, For: 98 * time.Second},
		"8 jobs are ready, the oldest for 9s; objective: 5s; cleared in about 4m": {
			N: 8, For: 9 * time.Second, Forecast: forecast.Answer{Clear: 4 * time.Minute},
		},
		"8 jobs are ready, the oldest for 7s; objective: 5s; unknown when cleared: paused by ann": {
			N: 8, For: 7 * time.Second, Forecast: forecast.Answer{Reason: forecast.Paused, By: "ann"},
		},
		"1 job is ready, for 9s; p99 of the last minute: 7s": {N: 1, For: 9 * time.Second, P99: 7 * time.Second},
	} {
		c.Kind, c.Limit = "late", 5*time.Second
		if text := c.Say(english(t)("en"), brief); !strings.HasPrefix(text, want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// TestFailedAttemptsOfWorkersNameNoEndpoint: an alert names an endpoint's answers only for topics that have one.
func TestFailedAttemptsOfWorkersNameNoEndpoint(t *testing.T) {
	t.Parallel()
	say := english(t)("en")
	for answer, want := range map[string]string{
		"500":   "3 of 4 attempts in five minutes failed: the endpoint returns 500",
		"lease": "3 of 4 attempts in five minutes failed",
	} {
		c := Cause{Kind: "topic_failing", N: 3, Of: 4, Answer: answer}
		if got := c.Say(say, brief); got != want {
			t.Errorf("%s: %q; want %q", answer, got, want)
		}
	}
}
