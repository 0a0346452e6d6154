package phpdq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/wakecall/wakecall/gateway/importer/importtest"
	"github.com/wakecall/wakecall/internal/store"
)

// A job that failed in php-delayqueue has the remaining attempts and retry waits that it would have there.
func TestAFailedPHPJobGoesOnCounting(t *testing.T) {
	t.Parallel()
	p := newSource(nil, nil, time.UTC)
	for body, want := range map[string]string{
		`{"a":1}`: "12 []", `{"exp_notify_nums":9}`: "3 [19m0s 21m0s]", `{"exp_notify_nums":11}`: "1 []",
	} {
		job, err := p.job("t:1", "1700000000000 1700000000 "+body)
		if got := fmt.Sprint(job.Push.MaxAttempts, " ", job.Push.Retry); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", body, got, err, want)
		}
	}
}

// Topics are registered as php-delayqueue reads them.
func TestTheRetryMarkOfATopicIsImported(t *testing.T) {
	t.Parallel()
	rows := []topicRow{{Topic: "good", Callback: " http://x.example/a ", ReNotifyFlag: " {res.code}!=200; "}}
	topics, err := newSource(rows, nil, time.UTC).Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if mark := topics[0].RetryIf; mark != "{res.code}!=200" {
		t.Errorf("its retry mark is %q", mark)
	}
}

// TestATimeThatDoesNotFitIsLate: a bucket's score may be any number.
func TestATimeThatDoesNotFitIsLate(t *testing.T) {
	t.Parallel()
	p := newSource(nil, nil, time.UTC)
	for _, score := range []string{"9223372036854775807", "1e300", "inf"} {
		job, err := p.job("a:1", "1764000000000 "+score+" {}")
		if err != nil || time.Until(job.Push.DueAt) < store.MaxDelay {
			t.Errorf("%s: due at %s, %v", score, job.Push.DueAt, err)
		}
	}
}

func TestDeletedJobsHideNoOthers(t *testing.T) {
	t.Parallel()
	db, ctx := importtest.Redis(t), t.Context()
	p := newSource([]topicRow{{Topic: "a", Callback: "http://x/", Status: 1}}, []*redis.Client{db}, time.UTC)
	if _, err := p.Topics(ctx); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		db.RPush(ctx, "dq_2ready_queue", "other:1", "a:1", "a:2", "a:3", "a:4").Err(),
		db.HSet(ctx, "dq_job_info", "a:4", "{}", "other:1", "{}").Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := p.Count(ctx); n != 1 || err != nil {
		t.Errorf("%d jobs would be imported, %v", n, err)
	}
	jobs, err := p.Claim(ctx, 2)
	if err != nil || importtest.IDs(jobs) != "4" || db.LLen(ctx, "dq_2ready_queue").Val() != 1 {
		t.Errorf("claimed %+v, %v, want the job after the deleted ones", jobs, err)
	}
	left, err := p.Left(ctx)
	if err != nil || len(left) != 1 || left[0].Push.Via != jobs[0].Push.Via || left[0].Claimed.IsZero() {
		t.Errorf("%+v are left, %v", left, err)
	}
	if err := p.Drop(ctx, left); err != nil || db.Exists(ctx, keyClaims).Val() != 0 {
		t.Errorf("its claim is left: %v", err)
	}
}

// TestEntriesThatStayAreReadOnce while other jobs are found, and again when there are none: an old system may have more
// entries that the import must leave than jobs.
func TestEntriesThatStayAreReadOnce(t *testing.T) {
	t.Parallel()
	db, ctx := importtest.Redis(t), t.Context()
	p := newSource([]topicRow{{Topic: "a", Callback: "http://x/", Status: 1}}, []*redis.Client{db}, time.UTC)
	if _, err := p.Topics(ctx); err != nil {
		t.Fatal(err)
	}
	const stay, jobs, n = 1000, 100, 10
	add := func(topic string, id, score int) {
		t.Helper()
		name := fmt.Sprint(topic, ":", id)
		err := errors.Join(db.HSet(ctx, keyInfo, name, "{}").Err(),
			db.ZAdd(ctx, "dq_bucket_0", redis.Z{Score: float64(score), Member: name}).Err())
		if err != nil {
			t.Fatal(err)
		}
	}
	for id := range stay {
		add("other", id, 1)
	}
	for id := range jobs {
		add("a", id, 2)
	}
	claimed := func() (count int) {
		t.Helper()
		for {
			list, err := p.Claim(ctx, n)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 0 {
				return count
			}
			count += len(list)
		}
	}
	if got := claimed(); got != jobs {
		t.Errorf("claimed %d jobs, want %d", got, jobs)
	}
	_, stats, _ := strings.Cut(db.Info(ctx, "commandstats").Val(), "cmdstat_evalsha:calls=")
	calls, _, _ := strings.Cut(stats, ",")
	if got, err := strconv.Atoi(calls); err != nil || got > 2*stay/n+2*jobs/n+10 {
		t.Errorf("%d scripts for %d entries in steps of %d, %v", got, stay+jobs, n, err)
	}
	add("a", jobs, 0) // before those that stay
	if got := claimed(); got != 1 {
		t.Errorf("then claimed %d jobs, want the one that was added", got)
	}
}
