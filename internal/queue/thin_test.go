package queue

import (
	"fmt"
	"testing"
	"time"
)

// TestATopicWithFewDelayedJobsHasThemInOnePage, however far apart they are due; further jobs get the pages of their
// minutes.
func TestATopicWithFewDelayedJobsHasThemInOnePage(t *testing.T) {
	f := newFixture(t)
	push := func(from, n int) {
		t.Helper()
		list := make([]Push, n)
		for i := range list {
			list[i] = Push{Topic: "t", ID: fmt.Sprint(from + i), Delay: time.Hour + time.Duration(i)*time.Minute}
		}
		for _, r := range f.q.PushBatch(f.ctx, list) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	keys := func(kind string) int {
		t.Helper()
		found, err := f.s.client.Keys(f.ctx, prefix(0)+kind+"*").Result()
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	push(0, thinTopic/2)
	push(thinTopic/2, thinTopic/2)
	if n := keys("p:"); n != 1 || keys("pg:") != 0 {
		t.Errorf("%d delayed jobs are in %d pages", thinTopic, n)
	}
	if f.push("t", "soon", 0); f.reserve(1)[0].ID != "soon" {
		t.Error("a ready job of the topic is not called")
	}
	push(thinTopic, 10)
	if n := keys("p:"); n != 11 {
		t.Errorf("%d more jobs are in %d more pages", 10, n-1)
	}
	if jobs, _, err := f.q.List(f.ctx, "t", Delayed, "", 1000); err != nil || len(jobs) != thinTopic+10 {
		t.Errorf("%d delayed jobs are listed: %v", len(jobs), err)
	}
	if err := openPages(f.ctx, f.s, "t"); err != nil {
		t.Fatal(err)
	}
	f.stats("t", 0, thinTopic+10, 1, 0)
}
