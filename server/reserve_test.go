package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/internal/queue/pull"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/server"
	"github.com/wakecall/wakecall/test/wait"
)

// fakeWorkers leases ready jobs, and ends every lease that has a topic.
type fakeWorkers struct {
	mu    sync.Mutex
	ready []store.Job
	asked pull.Request
	ended []store.End
	waits chan struct{} // ticks when a worker waits
	took  func()        // called after jobs were leased
	fail  error         // of every Take
}

func (f *fakeWorkers) Take(ctx context.Context, r pull.Request) ([]store.Job, error) {
	f.mu.Lock()
	f.asked = r
	if f.fail != nil {
		f.mu.Unlock()
		return nil, f.fail
	}
	jobs := f.ready[:min(len(f.ready), r.Max)]
	f.ready = f.ready[len(jobs):]
	f.mu.Unlock()
	if f.took != nil {
		f.took()
	}
	if len(jobs) > 0 || r.Wait <= 0 {
		return jobs, nil
	}
	if f.waits != nil {
		f.waits <- struct{}{}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.Stopping:
		return nil, nil
	}
}

func (f *fakeWorkers) End(_ context.Context, list []store.End) []store.Ended {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, list...)
	done := make([]store.Ended, len(list))
	for i, e := range list {
		ref := e.Lease.Ref
		done[i] = store.Ended{Ref: ref, Verb: e.Verb, At: time.Unix(1900000000, 0)}
		switch {
		case ref.ID == "over":
			done[i].Err = fmt.Errorf("x: %w", store.ErrLease)
		case e.Verb == store.Release:
			done[i].State = store.Delayed
		case e.Verb == store.Extend:
			done[i].State = store.Running
		}
	}
	return done
}

// leases of the jobs x and over in the topics p and other, as made by a queue: the shard main, a reference and a token.
const (
	leaseX     = "AQRtYWluAXABeAQBATEyMzQ1Njc4OTAxMg"
	leaseOver  = "AQRtYWluAXAEb3ZlcgQBATEyMzQ1Njc4OTAxMg"
	leaseOther = "AQRtYWluBW90aGVyAXgEAQExMjM0NTY3ODkwMTI"
)

func newPullAPI(t *testing.T, adjust ...func(*server.Options)) *api {
	a := newAPI(t, adjust...)
	for _, name := range []string{"p", "other", "made.*"} {
		topic := registry.NewTopic(name)
		topic.Delivery, topic.MaxAttempts = registry.DeliveryPull, 7
		a.registry.edit(func(s *registry.Snapshot) { s.Topics = s.Topics.With(name, &topic) })
	}
	return a
}

// TestNoBodyHidesOtherJobs: what some readers of JSON refuse is handed out in base64, by every answer that has bodies, so
// that the rest of the answer can be read. All bodies arrive byte for byte.
func TestNoBodyHidesOtherJobs(t *testing.T) {
	list, err := os.ReadFile("../test/testdata/bodies.tsv")
	if err != nil {
		t.Fatal(err)
	}
	a := newPullAPI(t)
	var all []store.Job
	for line := range strings.Lines(string(list)) {
		member, body, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		job := store.Job{
			Topic: "p", ID: "x", State: store.Ready, Body: []byte(body), Lease: &store.Lease{Attempt: 1},
		}
		a.jobs.jobs["p/x"], a.workers.ready, all = &job, []store.Job{job}, append(all, job)
		var got struct{ Jobs []client.LeasedJob }
		whole := a.do("GET", "/v1/topics/p/jobs/x", "").want(200).body
		reserved := a.do("POST", "/v1/reserve", `{"topics":["p"]}`).want(200).body
		for _, answer := range []string{whole, reserved} {
			if !jsontext.Value(answer).IsValid() || !strings.Contains(answer, `"`+member+`":`) {
				t.Errorf("%.80s: the answer is %.300s", body, answer)
			}
		}
		err := json.Unmarshal([]byte(reserved), &got)
		if err != nil || len(got.Jobs) != 1 || string(got.Jobs[0].Payload()) != body {
			t.Errorf("%.80s: reserved %+v, %v", body, got, err)
		}
	}
	a.workers.ready = all
	var got struct{ Jobs []client.LeasedJob }
	err = json.Unmarshal([]byte(a.do("POST", "/v1/reserve", `{"topics":["p"],"max":100}`).want(200).body), &got)
	if err != nil || len(got.Jobs) != len(all) {
		t.Fatalf("reserved %d of %d jobs together, %v", len(got.Jobs), len(all), err)
	}
	for i, job := range got.Jobs {
		if string(job.Payload()) != string(all[i].Body) {
			t.Errorf("%.80s: reserved %.80s with the others", all[i].Body, job.Payload())
		}
	}
}

func TestReserveAnswersWithJobs(t *testing.T) {
	a := newPullAPI(t)
	job := store.Job{Topic: "p", ID: "x", Body: []byte(`{ "a":1 }`), DueAt: time.Unix(1, 0),
		LeaseUntil: time.Unix(2, 0)}
	text, binary := job, job
	text.ContentType, text.Body, text.MaxAttempts, text.Headers = "text/plain", []byte("hi"), 3,
		map[string]string{"X-A": "b"}
	text.Schedule, text.For = "hourly", time.Unix(3600, 0)
	binary.ContentType, binary.Body = "image/png", []byte{0xff, 0}
	job.Lease = &store.Lease{Taken: job.LeaseUntil.Add(-2 * time.Hour), Attempt: 1}
	text.Lease, binary.Lease = &store.Lease{Attempt: 2}, &store.Lease{Attempt: 1}
	a.workers.ready = []store.Job{job, text, binary}
	r := a.do("POST", "/v1/topics/p/reserve", `{"max":5,"ttr":"2h"}`).want(200)
	if !strings.Contains(r.body, `"body":{ "a":1 }`) || !strings.Contains(r.body, `"body":"hi"`) ||
		!strings.Contains(r.body, `"body_base64":"/wA="`) {
		t.Errorf("bodies of %s", r.body)
	}
	jobs := r.json()["jobs"].([]any)
	first, second := jobs[0].(map[string]any), jobs[1].(map[string]any)
	if first["lease"] != job.Lease.String() || first["max_attempts"] != 7.0 ||
		first["leased_until"] != "1970-01-01T00:00:02.000Z" ||
		first["ttr"] != "2h0m0s" || second["max_attempts"] != 3.0 ||
		second["headers"].(map[string]any)["X-A"] != "b" || second["attempt"] != 2.0 {
		t.Errorf("jobs %s", r.body)
	}
	for i, want := range []any{nil, "1970-01-01T01:00:00.000Z", nil} {
		headers, _ := jobs[i].(map[string]any)["headers"].(map[string]any)
		if headers["Wakecall-Scheduled-For"] != want || (want != nil) != (headers["Wakecall-Schedule"] == "hourly") {
			t.Errorf("job %d: headers %v, want it scheduled for %v", i, headers, want)
		}
	}
	if a.workers.asked.Max != 5 || a.workers.asked.TTR != 2*time.Hour || a.workers.asked.Topics[0] != "p" {
		t.Errorf("asked %+v", a.workers.asked)
	}
	r = a.do("POST", "/v1/reserve", `{"topics":["p","made.~x"],"order":"listed"}`).want(200)
	if r.body != `{"jobs":[]}` {
		t.Errorf("of an empty topic: %s", r.body)
	}
	if a.workers.asked.Order != store.Listed || len(a.workers.asked.Topics) != 2 {
		t.Errorf("asked %+v", a.workers.asked)
	}
}

func TestWhatIsWrongWithAReserve(t *testing.T) {
	a := newPullAPI(t)
	for body, field := range map[string]string{
		`{}`: "topics", `{"topics":[]}`: "topics", `{"topics":["p","p"]}`: "topics", `{"topics":"p"}`: "topics",
		`{"topics":["p"],"max":"1"}`: "max", `{"topics":["p"],"order":"lifo"}`: "order", `{"topics":["p"],"x":1}`: "x",
		`{"topics":["p"],"max":1,"max":1}`: "max",
	} {
		a.do("POST", "/v1/reserve", body).problem(400, field)
	}
	for body, field := range map[string]string{
		`{"max":0}`: "max", `{"max":101}`: "max", `{"wait":"11m"}`: "wait", `{"wait":"-1s"}`: "wait",
		`{"ttr":"25h"}`: "ttr",
	} {
		a.do("POST", "/v1/topics/p/reserve", body).problem(422, field)
	}
	many := make([]string, 251)
	for i := range many {
		many[i] = fmt.Sprint("p", i)
	}
	a.do("POST", "/v1/reserve", `{"topics":["`+strings.Join(many, `","`)+`"]}`).problem(422, "topics",
		"251 topics in one request; the limit is 250 (pull.topics_per_request)")
	a.workers.fail = &pull.LimitError{Key: "pull.topics_per_token", Limit: 9, Detail: "workers of this token wait for 9"}
	r := a.do("POST", "/v1/reserve", `{"topics":["p"],"wait":"1s"}`).problem(429, "topics", "limit", "topics_per_token")
	if r.header.Get("Retry-After") != "5" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	if a.workers.asked.Token == "" {
		t.Error("the limit of its token does not apply")
	}
	a.workers.fail = nil
	a.do("POST", "/v1/topics/shop.orders/reserve", `{}`).problem(409, "", "pull")
	a.do("POST", "/v1/topics/none/reserve", `{}`).problem(404, "")
	a.do("POST", "/v1/topics/made.*/reserve", `{}`).problem(409, "")
	a.token = a.registry.grant("pusher", "*", registry.RightPush)
	a.do("POST", "/v1/topics/p/reserve", `{}`).problem(403, "")
	a.token = a.registry.grant("mine", "p", registry.RightConsume)
	a.do("POST", "/v1/topics/p/reserve", "").want(200)
	a.do("POST", "/v1/reserve", `{"topics":["p","other"]}`).problem(403, "")
}

func TestLeasesAreEnded(t *testing.T) {
	a := newPullAPI(t)
	for name, body := range map[string]string{
		"ack": `{"result":{"any":[1]}}`, "release": `{"delay":"5s"}`, "fail": `{"reason":"no stock"}`,
		"bury": `{"reason":"bad"}`,
	} {
		a.do("POST", "/v1/leases/"+leaseX+"/"+name, body).want(204)
		a.do("POST", "/v1/leases/"+leaseX+"/"+name, "").want(204)
		a.do("POST", "/v1/leases/"+leaseOver+"/"+name, "").problem(409, "", "lease expired")
		a.do("POST", "/v1/leases/nonsense/"+name, "").problem(409, "")
		a.do("POST", "/v1/leases/"+leaseX+"/"+name, `{"x":1}`).problem(400, "x")
	}
	if r := a.do("POST", "/v1/leases/"+leaseX+"/extend", `{"ttr":90}`).want(200); r.json()["leased_until"] == "" {
		t.Error(r.body)
	}
	for _, e := range a.workers.ended {
		switch {
		case e.Verb == store.Release && e.Delay != 5*time.Second && e.Delay != 0,
			e.Verb == store.Fail && e.Attempt != nil && e.Attempt.Error != "no stock",
			e.Verb == store.Extend && e.Delay != 90*time.Second:
			t.Errorf("ending %+v", e)
		}
	}
	a.token = a.registry.grant("mine", "p", registry.RightConsume)
	a.do("POST", "/v1/leases/"+leaseOther+"/ack", "").problem(403, "")
	r := a.do("POST", "/v1/leases",
		`{"ack":["`+leaseX+`",{"lease":"`+leaseOver+`","result":1}],"release":[{"lease":"`+leaseX+
			`","delay":1}],"extend":["`+leaseX+`"],"bury":["`+leaseOther+`","x"]}`).want(200)
	var got []string
	for _, v := range r.json()["results"].([]any) {
		x := v.(map[string]any)
		if e, failed := x["error"].(map[string]any); failed {
			got = append(got, fmt.Sprint(e["status"]))
		} else {
			got = append(got, fmt.Sprint(x["state"]))
		}
	}
	if want := "done 409 delayed running 403 409"; strings.Join(got, " ") != want {
		t.Errorf("results %v; want %s", got, want)
	}
	for body, field := range map[string]string{`{"ack":"x"}`: "ack", `{"keep":["x"]}`: "keep", `{"ack":[1]}`: "ack",
		`{"ack":[{"lease":1}]}`: "lease", `{"ack":["x",{}]}`: "lease", `{"ack":[{"lease":"x","delay":1}]}`: "delay"} {
		a.do("POST", "/v1/leases", body).problem(400, field)
	}
	a.do("POST", "/v1/leases", `{}`).problem(422, "ack")
	a.do("POST", "/v1/leases", `{"ack":[`+strings.Repeat(`"x",`, 1000)+`"x"]}`).problem(422, "ack")
}

// TestReserveOfAClientThatLeaves: it counts as gone while its request still waits.
func TestReserveOfAClientThatLeaves(t *testing.T) {
	w := &fakeWorkers{waits: make(chan struct{})}
	a := newPullAPI(t, func(o *server.Options) { o.Workers = w })
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v1/topics/p/reserve",
		strings.NewReader(`{"wait":"10m"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	ended := make(chan error)
	go func() {
		resp, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = resp.Body.Close()
		}
		ended <- err
	}()
	<-w.waits
	alive := w.asked.Alive
	if !alive() {
		t.Error("a waiting worker counts as gone")
	}
	cancel()
	<-ended
	wait.For(t, "a disconnected worker to count as gone", func() bool { return !alive() })
}

// flushing is an answer whose last step is controlled by the test.
type flushing struct {
	*httptest.ResponseRecorder
	flush func() error
}

func (f flushing) FlushError() error { return f.flush() }

// TestReserveGivesJobsWithTheAnswer, even if the client closes its connection at once; an answer that was not sent,
// or whose client had left before, releases them.
func TestReserveGivesJobsWithTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		leave    func(leave context.CancelFunc) // while jobs are being leased
		flush    func(leave context.CancelFunc) error
		released int
	}{
		"closed after it": {func(context.CancelFunc) {}, func(leave context.CancelFunc) error { leave(); return nil },
			0},
		"closed before it": {func(leave context.CancelFunc) { leave() }, func(context.CancelFunc) error { return nil },
			1},
		"broken off": {func(context.CancelFunc) {}, func(context.CancelFunc) error { return io.ErrClosedPipe },
			1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			w := &fakeWorkers{ready: []store.Job{{Topic: "p", ID: "x", Lease: &store.Lease{}}}}
			w.took = func() { c.leave(leave) }
			a := newPullAPI(t, func(o *server.Options) { o.Workers = w })
			r := httptest.NewRequestWithContext(ctx, "POST", "/v1/topics/p/reserve", strings.NewReader(`{}`))
			r.Header.Set("Authorization", "Bearer "+a.token)
			answer := flushing{httptest.NewRecorder(), func() error { return c.flush(leave) }}
			a.server.ServeHTTP(answer, r)
			if len(w.ended) != c.released {
				t.Errorf("answered %s; released %+v", answer.Body, w.ended)
			}
		})
	}
}

func TestPushOwnSettings(t *testing.T) {
	a := newPullAPI(t)
	r := a.do("POST", "/v1/topics/p/jobs",
		`{"body":1,"ttl":"1h","headers":{"X-Order":"42"},"retry":["5s",60],"ttr":"24h",`+
			`"max_attempts":65535}`).want(201)
	p := a.jobs.last
	if p.TTL != time.Hour || p.Headers["X-Order"] != "42" || len(p.Retry) != 2 || p.Retry[1] != time.Minute ||
		p.TTR != 24*time.Hour || p.MaxAttempts != 65535 {
		t.Errorf("pushed %+v; answered %s", p, r.body)
	}
	a.do("POST", "/v1/topics/p/jobs", `{"body":1,"expires_at":"2030-01-01T00:00:00Z"}`).want(201)
	if !a.jobs.last.ExpiresAt.Equal(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("expires at %v", a.jobs.last.ExpiresAt)
	}
	for body, field := range map[string]string{
		`{"body":1,"ttl":"1h","expires_at":1893456000000}`: "expires_at", `{"body":1,"headers":[]}`: "headers",
		`{"body":1,"headers":{"Host":"x"}}`: "headers", `{"body":1,"headers":{"A":1}}`: "headers",
		`{"body":1,"retry":"5s"}`: "retry",
	} {
		a.do("POST", "/v1/topics/p/jobs", body).problem(400, field)
	}
	for body, field := range map[string]string{
		`{"body":1,"ttl":"-1s"}`: "ttl", `{"body":1,"retry":["-1s"]}`: "retry", `{"body":1,"ttr":"25h"}`: "ttr",
	} {
		a.do("POST", "/v1/topics/p/jobs", body).problem(422, field)
	}
	a.do("POST", "/v1/topics/shop.orders/jobs", `{"body":1,"ttr":"2h"}`).problem(422, "ttr")
	a.do("POST", "/v1/topics/shop.orders/jobs", `{"body":1,"max_attempts":1001}`).problem(422, "max_attempts")
	a.do("POST", "/v1/topics/made.*/jobs", `{"body":1}`).problem(400, "topic")
	a.do("POST", "/v1/topics/made.q/jobs", `{"body":1}`).want(201)
}
