package jobs_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/journal/search"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// slowSearch reports half, and the rest when it may; canceled ones are counted.
type slowSearch struct {
	goOn, canceled chan struct{}
}

func (s slowSearch) All(ctx context.Context, q search.Query, tell func(search.Report)) search.Report {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := search.Report{Hosts: []search.Host{{Name: "one", Progress: journal.Progress{Read: 1 << 20, Total: 2 << 20}}}}
	tell(r)
	select {
	case <-ctx.Done():
		s.canceled <- struct{}{}
		return r
	case <-s.goOn:
	}
	r.Hosts = append(r.Hosts, search.Host{Name: "two", Done: true, Error: "cannot be asked: refused"})
	r.Jobs = []search.Job{{Topic: "shop.close", ID: q.ID, CreatedAt: at, Ended: "delete", Events: []search.Event{
		{At: at, What: "push", DueAt: at, Host: "one", Body: []byte(`{"n":1}`)},
		{At: at, What: "retry", N: 1, StartedAt: at, Status: 503, Error: "status 503", Attempt: true, Host: "one"},
		{At: at, What: "delete", By: "user/wei", Host: "two"},
	}}}
	r.Done = true
	return r
}

// TestThePageOfAForgottenJobSearchesTheJournals with its progress, and says what they know. A user has one search.
func TestThePageOfAForgottenJobSearchesTheJournals(t *testing.T) {
	t.Parallel()
	s := slowSearch{make(chan struct{}), make(chan struct{}, 2)}
	site := admintest.Open(t, func(o *admin.Options) { o.Search = s }).As("look")
	status, body := site.Get("/topics/shop.close/jobs/order-42")
	const part = "/search/journal?id=order-42&amp;topic=shop.close"
	if status != http.StatusNotFound || !strings.Contains(body, part) {
		t.Fatalf("the page of a job that no shard has: %d %s", status, body)
	}
	get := func(path string) string {
		t.Helper()
		path = strings.ReplaceAll(path, "&amp;", "&")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site.URL+path, nil)
		admintest.Must(t, err)
		r.Header.Set("HX-Request", "true")
		_, body := site.Send(r)
		return body
	}
	wait.For(t, "the progress", func() bool {
		body := get(part)
		return strings.Contains(body, "1.0 MiB of 2.0 MiB, hosts: 1") &&
			strings.Contains(body, `hx-trigger="every 1s"`)
	})
	get("/search/journal?id=order-43")
	<-s.canceled // replaced by the new one
	if body := get("/search/journal?id=order-43&stop=1"); strings.Contains(body, "No results") {
		t.Error(body)
	}
	<-s.canceled
	wait.For(t, "the search to be shown as stopped", func() bool {
		return strings.Contains(get("/search/journal?id=order-43"), "The search was stopped")
	})
	get(part)
	close(s.goOn)
	var done string
	wait.For(t, "the end", func() bool {
		done = get(part)
		return !strings.Contains(done, "every 1s")
	})
	for _, text := range []string{"Timeline", "deleted", "Pushed", "Attempt 1", "503",
		"user/wei", "Journal of two:", "cannot be asked: refused"} {
		if !strings.Contains(done, text) {
			t.Errorf("what is known lacks %q: %s", text, done)
		}
	}
	site.Shows("/search?id=order-42", part[:len(part)-len("shop.close")])
}

// TestATimelineHasEachStepOnce: what the journals know joins what the job's record says, which alone has responses.
func TestATimelineHasEachStepOnce(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	q := admintest.NewDeadQueue("a", 1)
	j := &q.Dead["a"][0]
	j.CreatedAt, j.DueAt, j.DeadAt = at, at.Add(3*time.Minute), at.Add(4*time.Minute)
	j.Attempts, j.History = 1, []store.Attempt{
		{N: 1, StartedAt: at.Add(time.Minute).UnixMilli(), Status: 500, Error: "status 500", Answer: "first"},
		{N: 1, StartedAt: at.Add(4 * time.Minute).UnixMilli(), Status: 503, Error: "status 503", Answer: "second"},
	}
	dead := func(n int, status int) search.Event {
		begin := at.Add(time.Duration(n) * time.Minute)
		return search.Event{At: begin, StartedAt: begin, What: "dead", N: 1, Attempt: true, Status: status, Host: "h"}
	}
	found := foundJob{search.Job{Topic: "a", ID: "job-0", CreatedAt: at, Ended: "dead", Events: []search.Event{
		{At: at.Add(2 * time.Minute), What: "push", CreatedAt: at, DueAt: at, Host: "h"}, dead(1, 500),
		{At: at.Add(5 * time.Minute), DueAt: at.Add(3 * time.Minute), What: "redrive", By: "user/wei", Host: "h"},
		dead(4, 503),
	}}}
	s := admintest.Open(t, func(o *admin.Options) { o.Queue, o.Search = q, found }).As("look")
	var body string
	wait.For(t, "the end of the search", func() bool {
		_, body = s.Get("/search/journal?id=job-0&topic=a")
		return strings.Contains(body, "All journals were searched")
	})
	for text, want := range map[string]int{
		"Pushed": 1, "Attempt 1<": 2, ">first<": 1, ">second<": 1, "Re-driven": 1, "user/wei": 1, "Became dead": 1,
		">Due<": 0, "count from 1 again": 0,
	} {
		if n := strings.Count(body, text); n != want {
			t.Errorf("%q is there %d times, want %d: %s", text, n, want, body)
		}
	}
	if !regexp.MustCompile(`(?s)Became dead.*503.*Re-driven.*500.*Pushed`).MatchString(body) {
		t.Errorf("the steps are not in the order of the shard's times: %s", body)
	}
}

// foundJob is a search that finds a job at once.
type foundJob struct{ search.Job }

func (f foundJob) All(context.Context, search.Query, func(search.Report)) search.Report {
	return search.Report{Jobs: []search.Job{f.Job}, Done: true}
}
