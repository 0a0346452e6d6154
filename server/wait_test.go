package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/queue/answers"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/wait"
)

// newWaitingAPI is newAPI whose pushes may wait, limit of them at once.
func newWaitingAPI(t *testing.T, limit int) (a *api, hub *answers.Hub) {
	t.Helper()
	a = newAPI(t, func(o *server.Options) {
		hub = answers.New(answers.Options{Limit: limit, Buckets: func() []*store.Bucket { return nil }})
		o.Answers = hub
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- hub.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return a, hub
}

// end changes the job and tells those who wait, once one does. nil: it is gone.
func (a *api) end(hub *answers.Hub, id string, change func(*store.Job)) {
	wait.For(a.t, "somebody waits", func() bool {
		a.jobs.mu.Lock()
		defer a.jobs.mu.Unlock()
		job := a.jobs.jobs["shop.orders/"+id]
		if job == nil || hub.Open() == 0 {
			return false
		}
		ended := *job // those who have read it keep theirs
		if a.jobs.jobs["shop.orders/"+id] = &ended; change == nil {
			delete(a.jobs.jobs, "shop.orders/"+id)
		} else {
			change(&ended)
		}
		return true
	})
	hub.Tell(store.Ref{Topic: "shop.orders", ID: id})
}

func done(j *store.Job) {
	j.State, j.Awaited = store.Finished, true
	j.Answer = store.EndpointAnswer(200, "text/plain", []byte("paid"), false)
	j.History = []store.Attempt{{N: 1, StartedAt: time.Now().UnixMilli(), Status: 200, Answer: "paid"}}
}

func TestAPushWaitsForTheEndOfItsJob(t *testing.T) {
	const result = `"result":{"status":200,"content_type":"text/plain","body":"paid"}`
	for name, c := range map[string]struct {
		end    func(*store.Job)
		status int
		want   []string
	}{
		"done": {done, 200, []string{`"state":"done"`, result}},
		"without a result": {func(j *store.Job) { done(j); j.Answer, j.History = nil, nil }, 200,
			[]string{`"state":"done"`, `"result":null`}},
		"remembered only": {func(j *store.Job) { done(j); j.Answer = nil }, 200,
			[]string{`"result":{"status":200,"content_type":"","body":"paid"}`}},
		"truncated": {func(j *store.Job) { done(j); j.Answer = &store.Answer{Result: []byte(`"x"`), Truncated: true} },
			200, []string{`"result":"x","truncated":true`}},
		"dead": {func(j *store.Job) {
			j.State, j.DeadReason, j.History = store.Dead, "attempts", []store.Attempt{{N: 1, Error: "no route"}}
		}, 200, []string{`"state":"dead"`, `"dead_reason":"attempts"`, `"error":"no route"`}},
		"deleted":  {nil, 409, []string{`"code":"job_gone"`}},
		"replaced": {func(j *store.Job) { j.CreatedAt = j.CreatedAt.Add(1) }, 409, []string{`"code":"job_gone"`}},
	} {
		t.Run(name, func(t *testing.T) {
			a, hub := newWaitingAPI(t, 0)
			go a.end(hub, "1", c.end)
			r := a.do("POST", orders, `{"id":"1","body":1,"wait":"30s"}`)
			for _, want := range c.want {
				if r.status != c.status || !strings.Contains(r.body, want) {
					t.Errorf("%d %s, want %d with %s", r.status, r.body, c.status, want)
				}
			}
			if !a.jobs.last.Awaited || r.header.Get("Preference-Applied") != "" || hub.Open() != 0 {
				t.Errorf("%+v, %v, %d waits", a.jobs.last, r.header, hub.Open())
			}
		})
	}
}

func TestAPushWaitsByItsHeaderAndRaw(t *testing.T) {
	a, hub := newWaitingAPI(t, 0)
	go a.end(hub, "1", done)
	r := a.do("POST", orders, `{"id":"1","body":1}`, "Prefer", `respond-async, WAIT="10"; x=1`)
	if r.status != 200 || r.header.Get("Preference-Applied") != "wait=10" ||
		!strings.Contains(r.body, `"state":"done"`) {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	go a.end(hub, "2", done)
	if r := a.do("PUT", orders+"/2?wait=10s", "x", "Content-Type", "text/plain"); r.status != 200 ||
		!strings.Contains(r.body, `"state":"done"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := a.do("POST", orders, `{"id":"1","body":1,"wait":"10s"}`); r.status != 200 || // which has ended
		!strings.Contains(r.body, `"duplicate":true`) || !strings.Contains(r.body, `"result":{`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, header := range []string{"wait=x", "return=minimal", "wait", "wait=0"} {
		if r := a.do("POST", orders, `{"body":1}`, "Prefer", header); r.status != 201 {
			t.Errorf("Prefer: %s: %d %s", header, r.status, r.body)
		}
	}
	if !strings.Contains(a.do("GET", orders+"/1", "").body, `"result":{`) {
		t.Error("GET shows no result")
	}
}

func TestTheTimeOfAWaitIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		push  string
		state store.State
		want  string
		gone  bool
	}{
		"kept": {`{"id":"1","body":1,"wait":"10ms"}`, store.Ready, `"state":"ready"`, false},
		"deleted": {`{"id":"1","body":1,"wait":"10ms","on_timeout":"delete"}`, store.Ready,
			`"deleted":true`, true},
		"running": {`{"id":"1","body":1,"wait":"10ms","on_timeout":"delete"}`, store.Running,
			`"state":"running"`, false},
		"kept explicitly": {`{"id":"1","body":1,"wait":"10ms","on_timeout":"keep"}`, store.Ready,
			`"state":"ready"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, hub := newWaitingAPI(t, 0)
			if r := a.do("POST", orders, `{"id":"1","body":1}`); r.status != 201 {
				t.Fatal(r.body)
			}
			a.jobs.jobs["shop.orders/1"].State = c.state
			r := a.do("POST", orders, c.push)
			if r.status != 202 || !strings.Contains(r.body, c.want) || hub.Open() != 0 {
				t.Errorf("%d %s, want 202 with %s", r.status, r.body, c.want)
			}
			if gone := a.do("GET", orders+"/1", "").status == 404; gone != c.gone {
				t.Errorf("gone: %v", gone)
			}
		})
	}
}

func TestAWaitEndsWithItsClient(t *testing.T) {
	a, hub := newWaitingAPI(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	body := strings.NewReader(`{"id":"1","body":1,"wait":"60s"}`)
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, a.url+orders, body)
	req.Header.Set("Authorization", "Bearer "+a.token)
	left := make(chan error, 1)
	go func() {
		_, err := a.client.Do(req)
		left <- err
	}()
	wait.For(t, "it waits", func() bool { return hub.Open() == 1 })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wait.For(t, "the wait ends", func() bool { return hub.Open() == 0 })
}

// TestRefusedWaits change nothing.
func TestRefusedWaits(t *testing.T) {
	a, hub := newWaitingAPI(t, 1)
	for body, want := range map[string]int{
		`{"body":1,"wait":"61s"}`:                  422,
		`{"body":1,"wait":"10s","delay":"11s"}`:    422,
		`{"body":1,"wait":"x"}`:                    400,
		`{"body":1,"on_timeout":"delete"}`:         400,
		`{"body":1,"wait":1,"on_timeout":"never"}`: 400,
		`{"body":1,"wait":5,"due_at":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `"}`: 422,
	} {
		if r := a.do("POST", orders, body); r.status != want {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	if r := a.do("POST", orders, `{"body":1}`, "Prefer", "wait=61"); r.status != 422 {
		t.Errorf("Prefer: %d %s", r.status, r.body)
	}
	batch := `{"jobs":[{"topic":"shop.orders","body":1,"wait":"1s"}]}`
	if r := a.do("POST", "/v1/jobs", batch); !strings.Contains(r.body, `"status":422`) {
		t.Errorf("batch: %d %s", r.status, r.body)
	}
	r := a.do("POST", "/v1/jobs", `{"jobs":[{"topic":"shop.orders","body":1}]}`, "Prefer", "wait=1")
	if r.status != 422 {
		t.Errorf("batch: %d %s", r.status, r.body)
	}
	pushOnly := a.registry.grant("push only", "*", registry.RightPush)
	if r := a.do("POST", orders, `{"body":1,"wait":"1s"}`, "Authorization", "Bearer "+pushOnly); r.status != 403 {
		t.Errorf("without read: %d %s", r.status, r.body)
	}
	held, err := hub.Enter(store.Ref{Topic: "t", ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	r = a.do("POST", orders, `{"body":1,"wait":"1s"}`)
	r.code("rate_limited")
	if r.status != 429 || r.header.Get("Retry-After") == "" {
		t.Errorf("over the limit: %d %v", r.status, r.header)
	}
	held.Leave()
	if changes := a.jobs.changes(); len(changes) != 0 || hub.Open() != 0 {
		t.Errorf("changed: %q, %d waits", changes, hub.Open())
	}
}
