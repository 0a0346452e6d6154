package lmstfy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/metrics"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/pulltest"
	"github.com/wakecall/wakecall/test/wait"
)

func (c *client) size(path string) int {
	c.Helper()
	var out struct{ Size int }
	if w := c.do("GET", path, ""); json.Unmarshal(w.Body.Bytes(), &out) != nil || w.Code != 200 {
		c.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return out.Size
}

// bulk publishes n jobs whose bodies are the numbers from 1.
func (c *client) bulk(queue string, n int) (ids []string) {
	c.Helper()
	for at := 1; at <= n; at += maxBulk {
		var bodies []string
		for i := at; i < min(at+maxBulk, n+1); i++ {
			bodies = append(bodies, fmt.Sprint(i))
		}
		var out struct {
			IDs []string `json:"job_ids"`
		}
		w := c.do("PUT", queue+"/bulk", "["+strings.Join(bodies, ",")+"]")
		if json.Unmarshal(w.Body.Bytes(), &out) != nil || len(out.IDs) != len(bodies) {
			c.Fatalf("bulk: %d %s", w.Code, w.Body)
		}
		ids = append(ids, out.IDs...)
	}
	return ids
}

// TestADestroyDeletesAllThatAreReady, even if they are more than one page.
func TestADestroyDeletesAllThatAreReady(t *testing.T) {
	c := newClient(t)
	c.bulk("q", 2*step+7)
	later := c.publish("q?delay=3600", "later")
	if jobs := c.consume("q?count=100&ttr=600"); len(jobs) != 100 || string(jobs[99].Data) != "100" {
		t.Errorf("a consume of 100 got %d", len(jobs))
	}
	if w := c.do("DELETE", "q", ""); w.Code != 204 {
		t.Errorf("destroy: %d %s", w.Code, w.Body)
	}
	if n := c.size("q/size"); n != 0 {
		t.Errorf("%d jobs are ready after a destroy", n)
	}
	if w := c.do("GET", "q/job/"+later, ""); w.Code != 200 {
		t.Errorf("a delayed job: %d %s", w.Code, w.Body)
	}
}

// TestTheOldestDeadJobsRespawnFirst, and are deleted first.
func TestTheOldestDeadJobsRespawnFirst(t *testing.T) {
	c := newClient(t)
	ids := c.bulk("q", 5)
	for i := range ids { // they die in this order
		c.consume("q?ttr=0")
		wait.For(t, "a job dies", func() bool { return c.size("q/deadletter/size") == i+1 })
	}
	if w := c.do("DELETE", "q/deadletter?limit=2", ""); w.Code != 204 || c.size("q/deadletter/size") != 3 ||
		c.do("GET", "q/job/"+ids[2], "").Code != 200 || c.do("GET", "q/job/"+ids[1], "").Code != 404 {
		t.Errorf("a delete of two: %d, %d remain", w.Code, c.size("q/deadletter/size"))
	}
	if w := c.do("PUT", "q/deadletter?limit=2&ttl=60", ""); w.Body.String() != `{"count":2,"msg":"respawned"}` {
		t.Errorf("respawn: %d %s", w.Code, w.Body)
	}
	head := `"deadletter_head":"` + ids[4] + `","deadletter_size":1,`
	if w := c.do("GET", "q/deadletter", ""); !strings.Contains(w.Body.String(), head) {
		t.Errorf("then %s, want the last job at the head", w.Body)
	}
	for _, id := range ids[2:4] {
		if job := c.consume("q")[0]; job.JobID != id || job.TTL < 59 || job.RemainTries != 0 {
			t.Errorf("consumed %+v, want %s with its new ttl", job, id)
		}
	}
	if w := c.do("PUT", "q/deadletter?limit=9223372036854775807&ttl=9223372036854775807", ""); w.Body.String() !=
		`{"count":1,"msg":"respawned"}` {
		t.Errorf("respawn of all: %d %s", w.Code, w.Body)
	}
}

// TestLongBodiesAreShownWhole although lists of jobs omit them.
func TestLongBodiesAreShownWhole(t *testing.T) {
	c := newClient(t)
	long := strings.Repeat("x", 20_000)
	id := c.publish("q", long)
	for _, path := range []string{"q/peek", "q/job/" + id, "q?ttr=600", "q/job/" + id} {
		if job := c.consume(path)[0]; job.JobID != id || string(job.Data) != long {
			t.Errorf("%s shows %d bytes of %s, want %d", path, len(job.Data), job.JobID, len(long))
		}
	}
}

// TestBodiesWithoutALength have the same limit, and a truncated one is not stored.
func TestBodiesWithoutALength(t *testing.T) {
	c := newClient(t)
	for name, x := range map[string]struct {
		body   io.Reader
		status int
		answer string
	}{
		"too long":   {strings.NewReader(strings.Repeat("x", maxBody+1)), 413, `{"error":"body too large"}`},
		"broken off": {io.MultiReader(strings.NewReader("x"), brokenReader{}), 400, `{"error":"failed to read body"}`},
	} {
		r := httptest.NewRequest(http.MethodPut, "/api/ns/q?token="+clientToken, x.body)
		r.ContentLength = -1
		w := httptest.NewRecorder()
		if c.api.ServeHTTP(w, r); w.Code != x.status || w.Body.String() != x.answer {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if n := c.size("q/size"); n != 0 {
		t.Errorf("%d jobs were stored", n)
	}
	longest := io.MultiReader(strings.NewReader(strings.Repeat("x", maxBody)))
	r := httptest.NewRequest(http.MethodPut, "/api/ns/q?token="+clientToken, longest)
	w := httptest.NewRecorder()
	if c.api.ServeHTTP(w, r); w.Code != 201 || len(c.consume("q")[0].Data) != maxBody {
		t.Errorf("a body of the largest size: %d %s", w.Code, w.Body)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestAnEmptyTokenHeaderIsNone: lmstfy's Go client sends it even when the token is in the query.
func TestAnEmptyTokenHeaderIsNone(t *testing.T) {
	c := newClient(t)
	c.token = ""
	if w := c.do("PUT", "q?token="+clientToken, "x"); w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestPoolsShareNothing but the server: neither jobs nor tokens.
func TestPoolsShareNothing(t *testing.T) {
	c := newClient(t)
	const big = "a-token-of-the-pool-big"
	w := c.ask(c.admin, "POST", "/token/ns?pool=big&description=d&token="+big, "", "Authorization", clientBasic)
	if w.Code != 201 {
		t.Fatalf("create a token: %d %s", w.Code, w.Body)
	}
	c.token = "big:" + big
	wait.For(t, "the gateway knows the token", func() bool { return c.do("GET", "none", "").Code == 404 })
	id := c.publish("Q_1", "of big")
	c.token = clientToken
	c.publish("Q_1", "of default")
	if job := c.consume("Q_1?count=9"); len(job) != 1 || string(job[0].Data) != "of default" {
		t.Errorf("the default pool has %+v", job)
	}
	if w := c.do("GET", "Q_1/job/"+id, ""); w.Code != 404 {
		t.Errorf("a job of the other pool: %d %s", w.Code, w.Body)
	}
	c.token = big
	if w := c.do("GET", "Q_1", ""); w.Code != 401 {
		t.Errorf("the token of the other pool: %d %s", w.Code, w.Body)
	}
	for _, pool := range []string{"", "big"} {
		w := c.ask(c.admin, "GET", "/info?pool="+pool, "")
		if w.Body.String() != "{\n    \"ns\": [\n        \"Q_1\"\n    ]\n}" ||
			w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("the queues of the pool %q: %s %s", pool, w.Header(), w.Body)
		}
	}
}

// TestTopicsNameTheirQueues, whatever characters their names have, and are valid topics of Wakecall.
func TestTopicsNameTheirQueues(t *testing.T) {
	t.Parallel()
	g := &Gateway{Options: Options{Pools: poolList{"default", "Big_1"}}}
	for _, pool := range g.Pools {
		for _, names := range [][2]string{
			{"ns", "q"}, {"NS", "Q"}, {"-_-", "0"}, {"a_b", "a-b"}, {strings.Repeat("N", 255), "q"},
		} {
			topic := g.Pools.topicOf(pool, names[0], names[1])
			if ns, q := namesOf(topic); ns != names[0] || q != names[1] || queueOf(topic) != names[1] {
				t.Errorf("%s belongs to %s, %s; want %v", topic, ns, q, names)
			}
			if strings.ToLower(topic) != topic ||
				!strings.HasPrefix(topic, strings.TrimSuffix(g.Pools.namespaceOf(pool), "*")) {
				t.Errorf("%s is not in %s", topic, g.Pools.namespaceOf(pool))
			}
		}
	}
	if ns, q := namesOf("elsewhere"); ns != "" || q != "elsewhere" {
		t.Errorf("a topic without a queue belongs to %q, %q", ns, q)
	}
}

// TestSeriesOfQueuesAreBounded, because clients may create a queue for each job.
func TestSeriesOfQueuesAreBounded(t *testing.T) {
	t.Parallel()
	m, r := newFigures(), &request{pool: "default", namespace: "ns"}
	for i := range metrics.DefaultMost {
		if got := m.queue(r, fmt.Sprint(i)); got[2] != fmt.Sprint(i) {
			t.Fatalf("queue %d has the labels %v", i, got)
		}
	}
	if got := fmt.Sprint(m.queue(r, "more")); got != "[default other other]" {
		t.Errorf("one more has the labels %s", got)
	}
	if got := m.queue(r, "7"); got[2] != "7" {
		t.Errorf("then, one of the first has the labels %v", got)
	}
}

// TestSeriesOfAQueueAreReleased, all of them and no others.
func TestSeriesOfAQueueAreReleased(t *testing.T) {
	t.Parallel()
	m := newFigures()
	for _, queue := range []string{"gone", "there"} {
		r := &request{pool: "big", namespace: "ns", queues: []string{queue}}
		m.published(r, 1)
		m.consumed(r, []store.Job{{Topic: "lmstfy-big.ns." + queue}})
		m.acked(r, time.Now())
	}
	m.release("big/ns/gone")
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(families); strings.Contains(text, "gone") || strings.Count(text, "there") != 4 {
		t.Errorf("the metrics are %s", text)
	}
}

func TestWindowsThatHaveEndedAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	w := newWindows(func() time.Time { return now })
	for i := range sweepAt {
		w.take(windowKey{"default", "ns", fmt.Sprint(i), consume}, 1, time.Second)
	}
	now = now.Add(time.Second)
	w.take(windowKey{"default", "ns", "another", consume}, 1, time.Hour)
	if n := len(w.known); n != 1 {
		t.Errorf("%d windows are known, want the current one", n)
	}
}

// TestTheAccessLogHasTheClient, but not with which token.
func TestTheAccessLogHasTheClient(t *testing.T) {
	c := newClient(t)
	var log strings.Builder
	g := New(c.endpoint, c.options)
	g.Log = slog.New(slog.NewTextHandler(&log, nil))
	api, admin := g.handler(), g.adminHandler()
	path := "/api/ns/q?token=" + clientToken
	c.ask(api, "PUT", path, "x")
	c.ask(admin, "POST", "/accesslog?status=enable", "", "Authorization", clientBasic)
	c.ask(api, "GET", path, "")
	c.ask(admin, "POST", "/accesslog?status=disable", "", "Authorization", clientBasic)
	c.ask(api, "GET", path, "")
	text := log.String()
	if strings.Count(text, "\n") != 1 || !strings.Contains(text, "method=GET path=/api/ns/q status=200") ||
		strings.Contains(text, clientToken) {
		t.Errorf("logged:\n%s", text)
	}
}

// TestAccountsNeedNameAndPassword: neither a name nor a password alone is enough, and without accounts all requests are
// accepted.
func TestAccountsNeedNameAndPassword(t *testing.T) {
	t.Parallel()
	status := func(accounts *gateway.Accounts, user, password string) int {
		g := New(pulltest.Endpoint(t, "lmstfy"), Options{Accounts: accounts})
		r := httptest.NewRequest(http.MethodGet, "/limits", nil)
		r.SetBasicAuth(user, password)
		w := httptest.NewRecorder()
		g.authorized(http.NotFoundHandler()).ServeHTTP(w, r)
		return w.Code
	}
	accounts := gateway.NewAccounts(map[string]string{"ops": "secret"}, time.Now)
	for _, x := range []struct {
		user, password string
		want           int
	}{
		{"ops", "secret", 404}, {"ops", "", 401}, {"ops", "Secret", 401}, {"", "", 401}, {"none", "secret", 401},
		{"none", "", 401},
	} {
		if got := status(accounts, x.user, x.password); got != x.want {
			t.Errorf("%q with %q: %d, want %d", x.user, x.password, got, x.want)
		}
	}
	if got := status(nil, "", ""); got != 404 {
		t.Errorf("without accounts: %d", got)
	}
}

// TestTheAdminAPIWithoutAccountsServesThisMachine, and no other name that resolves to it.
func TestTheAdminAPIWithoutAccountsServesThisMachine(t *testing.T) {
	c := newClient(t)
	o := c.options
	o.Accounts = nil
	open := New(c.endpoint, o).adminHandler()
	for host, want := range map[string]int{
		"127.0.0.1:7778": 200, "localhost": 200, "LOCALHOST:7778": 200, "[::1]:7778": 200,
		"evil.example:7778": 403, "localhost.evil.example": 403, "10.0.0.1:7778": 403, "": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/limits", nil)
		r.Host = host
		r.SetBasicAuth("ops", "secret")
		w := httptest.NewRecorder()
		if open.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d %s, want %d", host, w.Code, w.Body, want)
		}
		w = httptest.NewRecorder()
		if c.admin.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("%q with accounts: %d %s", host, w.Code, w.Body)
		}
	}
}

// TestTheAdminAPILimitsGuesses: after five wrong passwords, the right one is refused for a while, too, with the time to
// wait. Requests without a password are no guesses, nor are right ones, however many at once.
func TestTheAdminAPILimitsGuesses(t *testing.T) {
	c := newClient(t)
	now, o := time.Now(), c.options
	o.Accounts = gateway.NewAccounts(map[string]string{"ops": "secret"}, func() time.Time { return now })
	g := New(c.endpoint, o)
	admin := g.adminHandler()
	ask := func(address, user, password string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/limits", nil)
		r.RemoteAddr = address + ":1"
		if user != "" {
			r.SetBasicAuth(user, password)
		}
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, r)
		return w
	}
	var asking sync.WaitGroup
	for range 100 {
		asking.Go(func() {
			if w := ask("10.0.0.1", "", ""); w.Code != 401 {
				t.Errorf("without a password: %d %s", w.Code, w.Body)
			}
			if w := ask("10.0.0.1", "ops", "secret"); w.Code != 200 {
				t.Errorf("one of many right passwords: %d %s", w.Code, w.Body)
			}
		})
	}
	asking.Wait()
	for range 5 {
		if w := ask("10.0.0.1", "ops", "guess"); w.Code != 401 {
			t.Errorf("a wrong password: %d %s", w.Code, w.Body)
		}
	}
	w := ask("10.0.0.1", "ops", "secret")
	if w.Code != 429 || w.Header().Get("Retry-After") != "300" ||
		w.Body.String() != `{"error":"too many wrong passwords: try again in 300 s"}` {
		t.Errorf("after five guesses: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := ask("10.0.0.2", "ops", "secret"); w.Code != 200 {
		t.Errorf("from another address: %d %s", w.Code, w.Body)
	}
	now = now.Add(5 * time.Minute)
	if w := ask("10.0.0.1", "ops", "secret"); w.Code != 200 {
		t.Errorf("five minutes later: %d %s", w.Code, w.Body)
	}
}

// damaged is a registry whose settings cannot be read.
type damaged struct{ gateway.Registry }

func (damaged) Snapshot() *registry.Snapshot {
	return &registry.Snapshot{Settings: map[string]json.RawMessage{settingName("default", "ns"): json.RawMessage(`[]`)}}
}

// TestTokensThatCannotBeReadRefuseNobodyAsInvalid, because a client with an invalid token gives up.
func TestTokensThatCannotBeReadRefuseNobodyAsInvalid(t *testing.T) {
	c := newClient(t)
	c.options.Tokens = NewTokens(damaged{})
	g := New(c.endpoint, c.options)
	if w := c.ask(g.handler(), "GET", "/api/ns/q?token="+clientToken, ""); w.Code != 500 ||
		w.Body.String() != `{"error":"internal error"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/token/ns", "/limits", "/token/ns/x/limit"} {
		if w := c.ask(g.adminHandler(), "GET", path, "", "Authorization", clientBasic); w.Code != 500 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if _, err := c.options.Tokens.Find("default", "ns", "x"); err == nil || errors.Is(err, ErrTokenExists) {
		t.Errorf("its error is %v", err)
	}
}

// TestAnExpiredJobVanishes at once, although the queue removes it later. At the head of its queue, a peek shows nothing
// of it but its id.
func TestAnExpiredJobVanishes(t *testing.T) {
	c := newClient(t)
	c.publish("q?ttl=3600", "x") // the queue looks for expired jobs a minute after the first one
	c.consume("q?ttr=600")
	attributes := []string{"Enable-Job-Version", "YES", "Job-Attr-A", "x"}
	running := c.publish("q?ttl=5", "x", attributes...)
	if job := c.consume("q?ttr=600")[0]; job.JobID != running {
		t.Fatalf("consumed %+v", job)
	}
	ready := c.publish("q?ttl=1", "x", attributes...)
	next := c.publish("q", "y")
	for _, id := range []string{running, ready} {
		wait.For(t, "its ttl is over", func() bool {
			job, err := c.q.Get(t.Context(), "lmstfy.ns.q", id)
			return err == nil && time.Now().After(job.ExpiresAt)
		})
		if w := c.do("GET", "q/job/"+id, ""); w.Code != 404 || w.Body.String() != `{"error":"job not found"}` {
			t.Errorf("an expired job: %d %s", w.Code, w.Body)
		}
	}
	head := c.do("GET", "q/peek", "").Body.String()
	if !strings.Contains(head, fmt.Sprintf(`"job_id":%q`, next)) {
		t.Errorf("at the head of the queue: %s", head)
	}
	if job := c.consume("q")[0]; job.JobID != next {
		t.Errorf("consumed %+v", job)
	}
}

// TestAnEmptyBodyIsNoNull: null is the data of an expired job.
func TestAnEmptyBodyIsNoNull(t *testing.T) {
	c := newClient(t)
	id := c.publish("q", "")
	for _, path := range []string{"q/peek", "q/job/" + id, "q?ttr=600", "q/job/" + id} {
		if w := c.do("GET", path, ""); !strings.Contains(w.Body.String(), `"data":"",`) {
			t.Errorf("%s: %s", path, w.Body)
		}
	}
}

// TestQueuesThatConsumesWaitForAreLimited in each request, and for each token.
func TestQueuesThatConsumesWaitForAreLimited(t *testing.T) {
	c := newClient(t)
	queues := func(prefix string, n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprint(prefix, i)
		}
		return strings.Join(names, ",")
	}
	for path, want := range map[string]string{
		queues("q", pulltest.MaxTopics): `404 {"msg":"no job available"}`,
		queues("q", pulltest.MaxTopics+1): `400 {"error":"21 topics in one request; the limit is 20 ` +
			`(pull.topics_per_request): wait for fewer topics at once, or raise it"}`,
	} {
		if w := c.do("GET", path, ""); fmt.Sprint(w.Code, " ", w.Body) != want {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
	c.do("GET", queues("q", pulltest.MaxTopics)+"?timeout=1", "")
	const over = `429 {"msg":"workers of this token wait for 20 topics, and this request names 1 others; the limit is ` +
		`20 (pull.topics_per_token): wait for fewer topics at once, or raise it"}`
	if w := c.do("GET", "more?timeout=1", ""); fmt.Sprint(w.Code, " ", w.Body) != over {
		t.Errorf("%d %s, want %s", w.Code, w.Body, over)
	}
	if w := c.do("GET", queues("q", 5)+"?timeout=1", ""); w.Code != 404 {
		t.Errorf("a consume of the same queues: %d %s", w.Code, w.Body)
	}
}
