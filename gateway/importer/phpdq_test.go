package importer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
)

// A job that failed in php-delayqueue has the remaining attempts and retry waits that it would have there.
func TestAFailedPHPJobGoesOnCounting(t *testing.T) {
	t.Parallel()
	p := NewPHPDQ(nil, nil, time.UTC)
	for body, want := range map[string]string{
		`{"a":1}`: "12 []", `{"exp_notify_nums":9}`: "3 [19m0s 21m0s]", `{"exp_notify_nums":11}`: "1 []",
	} {
		job, err := p.job("t:1", "1700000000000 1700000000 "+body)
		if got := fmt.Sprint(job.Push.MaxAttempts, " ", job.Push.Retry); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", body, got, err, want)
		}
	}
}

// Topics are registered as php-delayqueue reads them, and all invalid ones are named at once.
func TestAllPHPTopicsThatDoNotFitAreNamed(t *testing.T) {
	t.Parallel()
	rows := []phpTopic{
		{Topic: "good", Callback: " http://x.example/a ", ReNotifyFlag: " {res.code}!=200; "},
		{Topic: "a name", Callback: "http://x.example/"}, {Topic: "ftp", Callback: "ftp://x.example/"},
	}
	topics, err := NewPHPDQ(rows, nil, time.UTC).Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if mark := topics[0].RetryIf; mark != "{res.code}!=200" {
		t.Errorf("its retry mark is %q", mark)
	}
	err = valid(topics)
	if err == nil || !strings.Contains(err.Error(), "a name") || !strings.Contains(err.Error(), "ftp") ||
		strings.Contains(err.Error(), "good") {
		t.Errorf("%v, want the last two to be named", err)
	}
}

// TestATimeThatDoesNotFitIsLate: a bucket's score may be any number.
func TestATimeThatDoesNotFitIsLate(t *testing.T) {
	t.Parallel()
	p := NewPHPDQ(nil, nil, time.UTC)
	for _, score := range []string{"9223372036854775807", "1e300", "inf"} {
		job, err := p.job("a:1", "1764000000000 "+score+" {}")
		if err != nil || time.Until(job.Push.DueAt) < queue.MaxDelay {
			t.Errorf("%s: due at %s, %v", score, job.Push.DueAt, err)
		}
	}
}
