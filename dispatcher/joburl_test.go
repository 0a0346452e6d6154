package dispatcher

import (
	"net/http"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
)

// TestAJobThatCannotBeSentSaysNothingAboutTheEndpoint: it is a failed attempt, but does not end the endpoint's failures
// in a row.
func TestAJobThatCannotBeSentSaysNothingAboutTheEndpoint(t *testing.T) {
	i := start(t)
	i.topic("t", func(x *registry.Topic) { x.Method = "GET" })
	i.hook("fails", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	for _, p := range []store.Push{
		{ID: "fails"}, {ID: "body", Body: []byte("[1]")}, {ID: "url", URL: i.url + "/no-longer-allowed"},
	} {
		p.Topic, p.Priority, p.MaxAttempts = "t", store.Normal, 1
		if p.Body == nil {
			p.Body = []byte("{}")
		}
		if r := i.q.Push(t.Context(), p); r.Err != nil {
			t.Fatal(r.Err)
		}
		eventually(t, p.ID+" is dead", func() bool {
			j, err := i.q.Get(t.Context(), "t", p.ID)
			return err == nil && j.State == store.Dead && len(j.History) == 1 && j.History[0].Error != ""
		})
		limits, err := observe.Figures{Queue: i.q}.TopicLimits(t.Context(), []string{"t"})
		if err != nil || limits["t"].Failures != 1 {
			t.Errorf("after %s: %d failures in a row, want 1 (%v)", p.ID, limits["t"].Failures, err)
		}
	}
	if i.called("url") != 0 {
		t.Error("called a URL that the topic does not allow")
	}
}

// TestAJobsOwnURLIsCalled in place of the topic's, on every attempt, until it is changed.
func TestAJobsOwnURLIsCalled(t *testing.T) {
	i := start(t)
	i.topic("t", func(x *registry.Topic) {
		x.JobURLs = []string{i.url + "/hooks/"}
		x.Retry = []registry.Duration{registry.Duration(time.Millisecond), registry.Duration(time.Hour)}
	})
	paths := make(chan string, 9)
	i.hook("a", func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		if i.called("a") < 3 {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	r := i.q.Push(t.Context(), store.Push{Topic: "t", ID: "a", Priority: store.Normal, URL: i.url + "/hooks/1"})
	if r.Err != nil || r.Job.URL == "" {
		t.Fatal(r)
	}
	eventually(t, "it waits for its second retry", func() bool {
		j, err := i.q.Get(t.Context(), "t", "a")
		return err == nil && j.State == store.Delayed && j.Attempts == 2
	})
	none, now := "", time.Duration(0)
	j, err := i.q.Change(t.Context(), "t", "a", store.Change{URL: &none, Delay: &now})
	if err != nil || j.URL != "" {
		t.Fatal(j, err)
	}
	eventually(t, "it is delivered", func() bool { return i.gone("t", "a") })
	for _, want := range []string{"/hooks/1", "/hooks/1", "/"} {
		if got := <-paths; got != want {
			t.Errorf("called %s, want %s", got, want)
		}
	}
}
