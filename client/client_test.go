package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain checks for leaked goroutines as goleak does, which would be the module's only dependency.
func TestMain(m *testing.M) {
	before, code := runtime.NumGoroutine(), m.Run()
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if code == 0 && time.Now().After(end) {
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			code = 1
		}
		if code != 0 {
			break
		}
	}
	os.Exit(code)
}

// seen is the request that the server received.
type seen struct {
	method, uri, auth, contentType, body string
}

// newServer answers every request with the status and body, and returns the last request.
func newServer(t *testing.T, status int, answer string) (*Client, *seen) {
	t.Helper()
	got := &seen{}
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*got = seen{r.Method, r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(b)}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}), 0)
	return c, got
}

func newClient(t *testing.T, h http.Handler, retryFor time.Duration) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := New(Options{URL: srv.URL + "/", Token: "tok", RetryFor: retryFor})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

const jobJSON = `{"topic":"shop.close","id":"a/b","state":"delayed","due_at":"2026-01-02T03:04:05.678Z",
	"priority":"high","attempts":1,"max_attempts":10,"ttr":"10s","created_at":"2026-01-02T03:00:00.000Z","body":{"n":1},
	"duplicate":true,
	"history":[{"n":1,"started_at":"2026-01-02T03:01:00.000Z","took_ms":12.5,"status":500,"error":"status 500"}]}`

func TestPushKeepsTheBodyByteForByte(t *testing.T) {
	c, got := newServer(t, 201, jobJSON)
	job, err := c.Push(context.Background(), "shop.close", Push{
		ID: "a/b", Body: json.RawMessage(`{ "html": "<b>&</b>",  "n": 1.0 }`), Delay: After(90 * time.Second),
		Priority: High,
		TTR:      5 * time.Second, OnDuplicate: Replace,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := seen{
		"POST", "/v1/topics/shop.close/jobs", "Bearer tok", "application/json",
		`{"id":"a/b","delay":"1m30s","priority":"high","ttr":"5s","on_duplicate":"replace",` +
			`"body":{ "html": "<b>&</b>",  "n": 1.0 }}`,
	}
	if *got != want {
		t.Errorf("sent %+v\nwant %+v", *got, want)
	}
	if !job.Duplicate || job.TTR.Std() != 10*time.Second || job.History[0].TookMS != 12.5 {
		t.Errorf("job %+v", job)
	}
	if ms := job.DueAt.UnixMilli(); ms != 1767323045678 {
		t.Errorf("due at %d", ms)
	}
}

func TestRequests(t *testing.T) {
	ctx := context.Background()
	due := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.FixedZone("", 3600))
	tests := map[string]struct {
		answer string
		call   func(*Client) error
		want   seen
	}{
		"push of a body alone": {jobJSON, func(c *Client) error {
			_, err := c.Push(ctx, "t", Push{ID: "x", Body: json.RawMessage(`1`)})
			return err
		}, seen{method: "POST", uri: "/v1/topics/t/jobs", contentType: "application/json", body: `{"id":"x","body":1}`}},
		"raw push": {jobJSON, func(c *Client) error {
			_, err := c.PushRaw(ctx, "t", RawPush{ID: "ä b", Body: []byte("\x00x"), ContentType: "text/plain",
				DueAt:    due,
				Priority: Low, Headers: map[string]string{"X-A": "1"}, Retry: []time.Duration{time.Second, time.Minute}})
			return err
		}, seen{
			method: "PUT", uri: "/v1/topics/t/jobs/%C3%A4%20b?due_at=2026-01-02T02%3A04%3A05.679Z&headers%5BX-A%5D=1&" +
				"priority=low&retry=1s%2C1m0s",
			contentType: "text/plain", body: "\x00x",
		}},
		"get of an id with a slash": {jobJSON, func(c *Client) error {
			_, err := c.Get(ctx, "t", "a/b")
			return err
		}, seen{method: "GET", uri: "/v1/topics/t/jobs/a%2Fb"}},
		"get of the id ..": {jobJSON, func(c *Client) error {
			_, err := c.Get(ctx, "t", "..")
			return err
		}, seen{method: "GET", uri: "/v1/topics/t/jobs/%2E%2E"}},
		"change of the priority": {jobJSON, func(c *Client) error {
			_, err := c.Change(ctx, "t", "x", Change{Priority: Low})
			return err
		}, seen{method: "PATCH", uri: "/v1/topics/t/jobs/x", contentType: "application/json",
			body: `{"priority":"low"}`}},
		"change of everything": {jobJSON, func(c *Client) error {
			_, err := c.Change(ctx, "t", "x", Change{Delay: After(0), Body: json.RawMessage(`[ 1 ]`)})
			return err
		}, seen{method: "PATCH", uri: "/v1/topics/t/jobs/x", contentType: "application/json",
			body: `{"delay":"0s","body":[ 1 ]}`}},
		"change of nothing": {jobJSON, func(c *Client) error {
			_, err := c.Change(ctx, "t", "x", Change{})
			return err
		}, seen{method: "PATCH", uri: "/v1/topics/t/jobs/x", contentType: "application/json", body: `{}`}},
		"delete": {"", func(c *Client) error { return c.Delete(ctx, "t", "x") },
			seen{method: "DELETE", uri: "/v1/topics/t/jobs/x"}},
		"run": {jobJSON, func(c *Client) error {
			_, err := c.Run(ctx, "t", "x")
			return err
		}, seen{method: "POST", uri: "/v1/topics/t/jobs/x/run"}},
		"list": {`{"jobs":[{}],"next":"n"}`, func(c *Client) error {
			page, err := c.List(ctx, "t", ListOptions{State: Dead, Limit: 5, Cursor: "c"})
			if err == nil && (len(page.Jobs) != 1 || page.Next != "n") {
				t.Errorf("page %+v", page)
			}
			return err
		}, seen{method: "GET", uri: "/v1/topics/t/jobs?cursor=c&limit=5&state=dead"}},
		"the first topics": {`{"topics":[{"name":"a"},{"name":"b"},{"name":"c"}],"next":"n"}`, func(c *Client) error {
			topics, err := c.FilteredTopics(ctx, TopicFilter{Prefix: "p", Limit: 2})
			if err == nil && (len(topics) != 2 || topics[1].Name != "b") {
				t.Errorf("topics %+v", topics)
			}
			return err
		}, seen{method: "GET", uri: "/v1/topics?limit=2&prefix=p"}},
		"retry of the dead": {`{"count":2}`, func(c *Client) error {
			n, err := c.RetryDead(ctx, "t", Selection{IDs: []string{"a", "b"}})
			if n != 2 {
				t.Errorf("retried %d", n)
			}
			return err
		}, seen{method: "POST", uri: "/v1/topics/t/dead/retry", contentType: "application/json",
			body: `{"ids":["a","b"]}`}},
		"delete of the dead": {`{"count":3}`, func(c *Client) error {
			n, err := c.DeleteDead(ctx, "t", Selection{Limit: 3})
			if n != 3 {
				t.Errorf("deleted %d", n)
			}
			return err
		}, seen{method: "POST", uri: "/v1/topics/t/dead/delete", contentType: "application/json",
			body: `{"limit":3}`}},
		"re-drive of a filter": {`{"count":1}`, func(c *Client) error {
			_, err := c.RetryDead(ctx, "t", Selection{Limit: 3, DryRun: true, Filter: &DeadFilter{Status: 500,
				Since: time.UnixMilli(0).UTC()}})
			return err
		}, seen{method: "POST", uri: "/v1/topics/t/dead/retry", contentType: "application/json",
			body: `{"limit":3,"filter":{"status":500,"since":"1970-01-01T00:00:00Z"},"dry_run":true}`}},
		"list of a filter": {`{"jobs":[],"next":""}`, func(c *Client) error {
			_, err := c.List(ctx, "t", ListOptions{State: Dead, Dead: &DeadFilter{Status: 500, Error: "TLS", Prefix: "a",
				Until: time.UnixMilli(0)}})
			return err
		}, seen{method: "GET",
			uri: "/v1/topics/t/jobs?error=TLS&prefix=a&state=dead&status=500&until=1970-01-01T00%3A00%3A00Z"}},
		"stats": {`{"delayed":1,"oldest_ready_ms":7}`, func(c *Client) error {
			s, err := c.Stats(ctx, "t")
			if err == nil && (s.Delayed != 1 || s.OldestReadyMS != 7) {
				t.Errorf("stats %+v", s)
			}
			return err
		}, seen{method: "GET", uri: "/v1/topics/t/stats"}},
		"topics": {`{"topics":[{"name":"t","ttr":"10s"}]}`, func(c *Client) error {
			ts, err := c.Topics(ctx)
			if err == nil && ts[0].Name != "t" {
				t.Errorf("topics %+v", ts)
			}
			return err
		}, seen{method: "GET", uri: "/v1/topics"}},
		"put of a topic": {`{"name":"t"}`, func(c *Client) error {
			_, created, err := c.PutTopic(ctx, Topic{Name: "t", CallbackURL: "http://h/?a&b",
				Retry: []Duration{Duration(time.Minute)}})
			if created {
				t.Error("200 was taken for created")
			}
			return err
		}, seen{
			method: "PUT", uri: "/v1/topics/t", contentType: "application/json",
			body: `{"callback_url":"http://h/?a&b","retry":["1m0s"]}`,
		}},
		"a topic without a limit of attempts, read and put again": {`{"name":"t","max_attempts":0}`,
			func(c *Client) error {
				topic, err := c.Topic(ctx, "t")
				if err != nil || topic.MaxAttempts != NoLimit {
					t.Errorf("%+v, %v", topic, err)
				}
				_, _, err = c.PutTopic(ctx, *topic)
				return err
			}, seen{
				method: "PUT", uri: "/v1/topics/t", contentType: "application/json", body: `{"max_attempts":0}`,
			}},
		"patch of a topic": {`{"name":"t","ttr":"5s"}`, func(c *Client) error {
			topic, err := c.PatchTopic(ctx, "t", json.RawMessage(`{"ttr":"5s","owner":null}`), "")
			if err == nil && topic.TTR != Duration(5*time.Second) {
				t.Errorf("topic %+v", topic)
			}
			return err
		}, seen{
			method: "PATCH", uri: "/v1/topics/t", contentType: "application/merge-patch+json",
			body: `{"ttr":"5s","owner":null}`,
		}},
		"state of a topic": {`{}`, func(c *Client) error { return c.SetTopicState(ctx, "t", "offline") }, seen{
			method: "PATCH", uri: "/v1/topics/t", contentType: "application/merge-patch+json", body: `{"state":"offline"}`,
		}},
		"pause of a topic": {`{"state":"paused","paused_until":"2026-01-02T03:04:05.678Z"}`, func(c *Client) error {
			topic, err := c.PauseTopic(ctx, "t", "shop is down", due)
			if err == nil && (topic.State != "paused" || topic.PausedUntil.UnixMilli() != 1767323045678) {
				t.Errorf("topic %+v", topic)
			}
			return err
		}, seen{method: "POST", uri: "/v1/topics/t/pause", contentType: "application/json",
			body: `{"reason":"shop is down","until":"2026-01-02T02:04:05.679Z"}`}},
		"pause of a topic until it is resumed": {`{}`, func(c *Client) error {
			_, err := c.PauseTopic(ctx, "t", "", time.Time{})
			return err
		}, seen{method: "POST", uri: "/v1/topics/t/pause", contentType: "application/json", body: `{}`}},
		"resume of a topic": {`{"state":"active"}`, func(c *Client) error {
			topic, err := c.ResumeTopic(ctx, "t")
			if err == nil && topic.State != "active" {
				t.Errorf("topic %+v", topic)
			}
			return err
		}, seen{method: "POST", uri: "/v1/topics/t/resume", contentType: "application/json", body: `{}`}},
		"ack": {"", func(c *Client) error { return c.Ack(ctx, "l") }, seen{method: "POST", uri: "/v1/leases/l/ack"}},
		"ack with a result": {"", func(c *Client) error { return c.AckResult(ctx, "l", json.RawMessage(`{"a":"<"}`)) },
			seen{method: "POST", uri: "/v1/leases/l/ack", contentType: "application/json", body: `{"result":{"a":"<"}}`}},
		"delete of a topic": {"", func(c *Client) error { return c.DeleteTopic(ctx, "t") },
			seen{method: "DELETE", uri: "/v1/topics/t"}},
		"drop of a topic": {"", func(c *Client) error { return c.DropTopic(ctx, "t") },
			seen{method: "DELETE", uri: "/v1/topics/t?drop=true"}},
		"deletion with schedules": {"", func(c *Client) error {
			return c.DeleteTopicWith(ctx, "t", TopicDeletion{Schedules: true})
		}, seen{method: "DELETE", uri: "/v1/topics/t?force=true"}},
		"shards": {`{"shards":[{"name":"main","up":true}]}`, func(c *Client) error {
			s, err := c.Shards(ctx)
			if err == nil && !s[0].Up {
				t.Errorf("shards %+v", s)
			}
			return err
		}, seen{method: "GET", uri: "/v1/shards"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, got := newServer(t, 200, tt.answer)
			if err := tt.call(c); err != nil {
				t.Fatal(err)
			}
			tt.want.auth = "Bearer tok"
			if *got != tt.want {
				t.Errorf("sent %+v\nwant %+v", *got, tt.want)
			}
		})
	}
}

func TestBatch(t *testing.T) {
	c, got := newServer(t, 200, `{"results":[{"topic":"t","id":"1","state":"delayed"},
		{"error":{"status":404,"title":"Not Found","detail":"there is no topic \"u\"","field":"topic"}}]}`)
	results, err := c.PushBatch(context.Background(), []Push{
		{Topic: "t", ID: "1", Body: json.RawMessage(`"x"`)}, {Topic: "u", ID: "2", Body: json.RawMessage(`null`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"jobs":[{"topic":"t","id":"1","body":"x"},{"topic":"u","id":"2","body":null}]}`; got.body != want {
		t.Errorf("sent %s, want %s", got.body, want)
	}
	if results[0].Err != nil || results[0].Job.ID != "1" {
		t.Errorf("first result %+v", results[0])
	}
	if !errors.Is(results[1].Err, ErrNotFound) || results[1].Job != nil {
		t.Errorf("second result %+v", results[1])
	}
}

func TestErrorsNameTheProblem(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		is     error
		text   string
	}{
		"a field": {422, `{"status":422,"title":"Unprocessable","detail":"is negative","field":"delay"}`, ErrInvalid,
			"delay: is negative"},
		"a detail": {404, `{"status":404,"title":"Not Found","detail":"there is no topic \"x\""}`, ErrNotFound,
			`there is no topic "x"`},
		"a title alone":    {409, `{"title":"Conflict"}`, ErrConflict, "Conflict"},
		"a proxy's answer": {503, "<html>  bad\nday</html>", ErrUnavailable, "<html> bad day</html>"},
		"an empty answer":  {401, "", ErrUnauthorized, "unauthorized"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, _ := newServer(t, tt.status, tt.body)
			_, err := c.Get(context.Background(), "t", "x")
			if !errors.Is(err, tt.is) || err.Error() != tt.text {
				t.Errorf("got %v, want %s", err, tt.text)
			}
		})
	}
}

func TestAnswerThatIsNotWakecalls(t *testing.T) {
	c, _ := newServer(t, 200, "hello")
	if _, err := c.Get(context.Background(), "t", "x"); err == nil {
		t.Error("no error")
	}
}

func TestBodyMustBeJSON(t *testing.T) {
	c, got := newServer(t, 201, jobJSON)
	if _, err := c.Push(context.Background(), "t", Push{Body: json.RawMessage(`{`)}); err == nil || got.method != "" {
		t.Errorf("error %v, sent %+v", err, got)
	}
}

func TestRefusedConnectionIsUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c, err := New(Options{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Ready(context.Background())
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

func TestCancelledContextIsNotUnreachable(t *testing.T) {
	c, _ := newServer(t, 200, "{}")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Ready(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

func TestOnlySafeRequestsAreRepeated(t *testing.T) {
	body := json.RawMessage(`1`)
	ctx := context.Background()
	tests := map[string]struct {
		call func(*Client) error
		want int32
	}{
		"push with an id": {func(c *Client) error { _, err := c.Push(ctx, "t", Push{ID: "x", Body: body}); return err },
			2},
		"push without an id": {func(c *Client) error { _, err := c.Push(ctx, "t", Push{Body: body}); return err }, 2},
		"ack":                {func(c *Client) error { return c.Ack(ctx, "l") }, 2},
		"push that refuses duplicates": {func(c *Client) error {
			_, err := c.Push(ctx, "t", Push{ID: "x", Body: body, OnDuplicate: Refuse})
			return err
		}, 1},
		"delete":            {func(c *Client) error { return c.Delete(ctx, "t", "x") }, 1},
		"get":               {func(c *Client) error { _, err := c.Get(ctx, "t", "x"); return err }, 2},
		"cancel of a group": {func(c *Client) error { _, err := c.CancelGroup(ctx, "g", time.Minute); return err }, 2},
		"move of a group by a delay": {func(c *Client) error {
			_, err := c.MoveGroup(ctx, "g", GroupMove{Delay: After(0)})
			return err
		}, 1},
		"shift of a group": {func(c *Client) error {
			_, err := c.MoveGroup(ctx, "g", GroupMove{Shift: time.Hour, Key: "k"})
			return err
		}, 2},
		"put of a schedule": {func(c *Client) error {
			_, _, err := c.PutSchedule(ctx, Schedule{Name: "s", Body: body})
			return err
		}, 2},
		"run of a schedule":    {func(c *Client) error { _, err := c.RunSchedule(ctx, "s"); return err }, 1},
		"resume of a schedule": {func(c *Client) error { _, err := c.ResumeSchedule(ctx, "s", true); return err }, 2},
		"backfill":             {func(c *Client) error { _, err := c.BackfillSchedule(ctx, "s", Backfill{}); return err }, 2},
		"delete of a schedule": {func(c *Client) error { return c.DeleteSchedule(ctx, "s") }, 1},
	}
	ways := map[error]http.HandlerFunc{
		ErrUnavailable: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		ErrUnreachable: loses,
	}
	for name, tt := range tests {
		for want, way := range ways {
			t.Run(name+", "+want.Error(), func(t *testing.T) {
				var calls atomic.Int32
				c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if calls.Add(1) == 1 {
						way(w, r)
						return
					}
					_, _ = io.WriteString(w, jobJSON)
				}), time.Minute)
				err := tt.call(c)
				if calls.Load() != tt.want {
					t.Errorf("%d requests, want %d", calls.Load(), tt.want)
				}
				if tt.want == 1 != errors.Is(err, want) {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}

// loses closes the connection instead of answering.
func loses(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// TestARepeatedPushHasTheSameID: otherwise the server would store a second job when the first answer is lost.
func TestARepeatedPushHasTheSameID(t *testing.T) {
	body, ctx := json.RawMessage(`1`), context.Background()
	for name, push := range map[string]func(*Client) error{
		"push":     func(c *Client) error { _, err := c.Push(ctx, "t", Push{Body: body}); return err },
		"raw push": func(c *Client) error { _, err := c.PushRaw(ctx, "t", RawPush{Body: body}); return err },
		"batch": func(c *Client) error {
			_, err := c.PushBatch(ctx, []Push{{Topic: "t", Body: body}, {Topic: "t", Body: body}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ids []string // of both requests
			requests := 0
			c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent, _ := io.ReadAll(r.Body)
				ids = append(ids, regexp.MustCompile(`\b[0-9a-f]{32}\b`).FindAllString(r.RequestURI+" "+string(sent), -1)...)
				if requests++; requests == 1 {
					loses(w, r)
				}
				_, _ = io.WriteString(w, `{"results":[{},{}]}`)
			}), time.Minute)
			if err := push(c); err != nil {
				t.Fatal(err)
			}
			half := len(ids) / 2
			if half == 0 || !slices.Equal(ids[:half], ids[half:]) || half == 2 && ids[0] == ids[1] {
				t.Errorf("ids %q", ids)
			}
		})
	}
}

func TestRetryAfterLongerThanRetryForIsNotWaitedFor(t *testing.T) {
	var calls atomic.Int32
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}), time.Minute)
	_, err := c.Get(context.Background(), "t", "x")
	var e *Error
	if !errors.As(err, &e) || e.RetryAfter != time.Hour || calls.Load() != 1 {
		t.Errorf("error %v after %d requests", err, calls.Load())
	}
}

func TestNewRefusesAnInvalidURL(t *testing.T) {
	for _, u := range []string{"", "127.0.0.1:6789", "ftp://x", "http://", "http://a b"} {
		if _, err := New(Options{URL: u}); err == nil {
			t.Errorf("%q was accepted", u)
		}
	}
}

// TestAWriteIsNotTurnedIntoARead: after a redirect with 301 or 302, net/http sends a GET, whose success would be
// reported as that of the write.
func TestThePasswordOfTheURLIsNotShown(t *testing.T) {
	for _, url := range []string{"http://ann:hu%sh@h", "ann:hush@h", "ftp://ann:hush@h", "http://ann:hush/@h"} {
		if _, err := New(Options{URL: url}); err == nil || strings.Contains(err.Error(), "hu") {
			t.Errorf("%s: %v", url, err)
		}
	}
	c, err := New(Options{URL: "http://ann:hush@127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "t", "x"); err == nil || strings.Contains(err.Error()+c.URL(), "hush") {
		t.Errorf("%s: %v", c.URL(), err)
	}
}

func TestAWriteIsNotTurnedIntoARead(t *testing.T) {
	var methods []string
	real := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
		_, _ = io.WriteString(w, jobJSON)
	}), 0)
	status := http.StatusMovedPermanently
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, real.URL()+r.URL.Path, status)
	}), 0)
	err := c.Delete(context.Background(), "t", "x")
	if err == nil || !strings.Contains(err.Error(), real.URL()) || len(methods) > 0 {
		t.Errorf("a redirected delete: %v, and the other server got %v", err, methods)
	}
	if _, err := c.Get(context.Background(), "t", "x"); err != nil {
		t.Errorf("a redirected read: %v", err)
	}
	status = http.StatusPermanentRedirect // keeps the method
	if err := c.Delete(context.Background(), "t", "x"); err != nil || methods[len(methods)-1] != http.MethodDelete {
		t.Errorf("a delete that was redirected with its method: %v, %v", err, methods)
	}
}

// TestPatchOfAStateThatChanged: the ETag is sent, and the patch is not repeated.
func TestPatchOfAStateThatChanged(t *testing.T) {
	match, calls := "", 0
	c := newClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		match, calls = r.Header.Get("If-Match"), calls+1
		w.WriteHeader(http.StatusPreconditionFailed)
	}), time.Minute)
	_, err := c.PatchTopic(t.Context(), "t", json.RawMessage(`{}`), `"old"`)
	if !errors.Is(err, ErrChanged) || match != `"old"` || calls != 1 {
		t.Errorf("%v after %d requests with If-Match %s", err, calls, match)
	}
}

func TestAReasonFitsTheServer(t *testing.T) {
	for _, reason := range []string{
		strings.Repeat("\xff", 400), strings.Repeat("ä", 400), "x" + strings.Repeat("😀", 200), strings.Repeat("x", 513),
	} {
		c, got := newServer(t, 204, "")
		if err := c.Fail(context.Background(), "l", reason); err != nil {
			t.Fatal(err)
		}
		var sent struct{ Reason string }
		if err := json.Unmarshal([]byte(got.body), &sent); err != nil || len(sent.Reason) > maxReason {
			t.Errorf("%d bytes of %.8q were sent, %v", len(sent.Reason), reason, err)
		}
	}
}

// TestChangeOfURL: nil keeps it, empty sends null; a local time goes with its zone.
func TestChangeOfURL(t *testing.T) {
	none, url := "", "https://a.shop.example/hooks/1"
	for want, ch := range map[string]Change{
		`{"priority":"low"}`:                   {Priority: "low"},
		`{"url":null}`:                         {URL: &none},
		`{"url":"` + url + `","body":{"a":1}}`: {URL: &url, Body: []byte(`{"a":1}`)},
		`{"due_at":"2031-03-30T02:30:00","time_zone":"Europe/Berlin"}`: {
			DueLocal: "2031-03-30T02:30:00", TimeZone: "Europe/Berlin",
		},
	} {
		got, err := ch.encode()
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	if _, err := (Change{Body: []byte("{")}).encode(); err == nil {
		t.Error("accepted a body that is not JSON")
	}
}
