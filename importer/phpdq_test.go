package importer

import (
	"fmt"
	"testing"
	"time"
)

// A job that has failed in php-delayqueue has the attempts and the waits that it would still have there.
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
