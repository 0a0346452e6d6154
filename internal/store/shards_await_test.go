package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// TestRequestsWaitForAComparison, as after every start: each is carried out once when the shard is open.
func TestRequestsWaitForAComparison(t *testing.T) {
	url, _ := startRedis(t)
	f := fixtureOn(t, url, store.Options{AwaitCompared: wait.Limit})
	for _, id := range []string{"got", "gone", "again"} {
		f.push("t", id, time.Hour)
	}
	f.pullTopics("p")
	f.push("p", "1", 0)
	f.lose()
	c := f.attend("a")
	requests := map[string]func() error{
		"push": func() error { return f.q.Push(f.ctx, store.Push{Topic: "t", ID: "new", Delay: time.Hour}).Err },
		"batch": func() error {
			list := f.q.PushBatch(f.ctx, []store.Push{{Topic: "t", ID: "again", Delay: time.Hour}, {Topic: "u", ID: "1"}})
			if list[0].Err == nil && !list[0].Duplicate {
				t.Error("a push of an existing id is no duplicate")
			}
			return list[1].Err
		},
		"get":    func() error { _, err := f.q.Get(f.ctx, "t", "got"); return err },
		"delete": func() error { return f.q.Delete(f.ctx, "t", "gone", nil) },
		"take": func() error {
			jobs, err := f.q.Take(f.ctx, store.TakeRequest{Topics: []string{"p"}, Max: 1, TTR: time.Minute})
			if err == nil && len(jobs) != 1 {
				t.Errorf("took %v", jobs)
			}
			return err
		},
	}
	type answer struct {
		name string
		err  error
	}
	answers := make(chan answer, len(requests))
	for name, request := range requests {
		go func() { answers <- answer{name, request()} }()
	}
	wait.For(t, "the shard is known to be compared", func() bool { return f.b.DownForTest().Load() })
	if n := len(answers); n > 0 {
		t.Errorf("%d requests did not wait", n)
	}
	f.compared("a", c)
	for range requests {
		if a := <-answers; a.err != nil {
			t.Errorf("%s: %v", a.name, a.err)
		}
	}
	f.get("t", "new")
	f.gone("t", "gone")
}

// TestAWaitForAComparisonIsBounded by the option and by the request.
func TestAWaitForAComparisonIsBounded(t *testing.T) {
	url, _ := startRedis(t)
	const short = 10 * time.Millisecond
	for limit, patience := range map[time.Duration]time.Duration{short: wait.Limit, wait.Limit: short} {
		f := fixtureOn(t, url, store.Options{AwaitCompared: limit})
		f.lose()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := f.q.Get(ctx, "t", "1")
		for _, err := range []error{err, f.q.Push(ctx, store.Push{Topic: "t", ID: "1"}).Err} {
			if err == nil || limit < patience && !store.IsComparing(err) {
				t.Errorf("limit %s, patience %s: %v", limit, patience, err)
			}
		}
		cancel()
		adopt(t, f.s.Redis())
	}
}
