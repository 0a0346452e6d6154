package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

const ownURL = "https://a.shop.example/hooks/1?a=b&ttr=5"

// TestAJobsURLSurvives changes of other fields, retries, death, re-drives and remembering. It is set, kept and cleared
// with bodies of every length, and replaced with its job.
func TestAJobsURLSurvives(t *testing.T) {
	f := newFixture(t)
	want := func(what, url string, body int) {
		t.Helper()
		if j := f.get("t", "a"); j.URL != url || len(j.Body) != body {
			t.Fatalf("%s: %q, %d bytes; want %q, %d", what, j.URL, len(j.Body), url, body)
		}
	}
	change := func(c store.Change) {
		t.Helper()
		if _, err := f.q.Change(f.ctx, "t", "a", c); err != nil {
			t.Fatal(err)
		}
	}
	none, url, low := "", ownURL, store.Low
	for _, size := range []int{2, store.LongBody - len(ownURL), store.LongBody - 2, 2 * store.LongBody} {
		body := []byte(strings.Repeat("y", size))
		f.push("t", "a", time.Hour, func(p *store.Push) {
			p.Body, p.URL, p.OnDuplicate = body, ownURL, store.Replace
		})
		want("pushed", ownURL, size)
		change(store.Change{Priority: &low})
		want("kept", ownURL, size)
		change(store.Change{URL: &none})
		want("cleared", "", size)
		change(store.Change{URL: &url})
		want("set", ownURL, size)
		short := []byte("{}")
		change(store.Change{URL: &none, Body: &short})
		want("cleared with a body", "", 2)
		change(store.Change{URL: &url, Body: &body})
		want("set with a body", ownURL, size)
	}
	f.push("t", "a", 0, func(p *store.Push) { p.OnDuplicate = store.Replace })
	if j := f.get("t", "a"); j.URL != "" {
		t.Fatal("the job that replaced it has its URL")
	}
	f.push("t", "a", 0, func(p *store.Push) { p.URL, p.OnDuplicate = ownURL, store.Replace })
	for _, verb := range []store.Verb{store.Retry, store.Bury, store.Done} {
		list := f.reserve(1)
		if list[0].URL != ownURL {
			t.Fatalf("reserved for %s: %+v", verb, list[0])
		}
		f.settle(verb, func(e *store.End) { e.Reason = "attempts" }, list...)
		if verb != store.Done {
			if j, err := f.q.RunNow(f.ctx, "t", "a", nil); err != nil || j.URL != ownURL {
				t.Fatalf("run after %s: %+v, %v", verb, j, err)
			}
		}
	}
}
