package grape

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/pulltest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client sends requests to a handler.
type client struct {
	*testing.T
	h      http.Handler
	cookie string
}

func (c *client) ask(method, target, body string) *httptest.ResponseRecorder {
	c.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if c.cookie != "" {
		r.Header.Set("Cookie", c.cookie)
	}
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	return w
}

func (c *client) want(method, target, body string, status int, answer string) {
	c.Helper()
	if w := c.ask(method, target, body); w.Code != status || w.Body.String() != answer {
		c.Errorf("%s %s: %d %s, want %d %s", method, target, w.Code, w.Body, status, answer)
	}
}

func newClient(t *testing.T) (*client, *pulltest.Queue) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	g := New(pulltest.Endpoint(t, "grape"), q, q.Registry, 64)
	c := &client{T: t, h: g.handler()}
	c.want("POST", "/api/tube/create?tube=T", "", 200, "true")
	return c, q
}

// brokenWriter is the connection of a disconnected client.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("the client has left") }

// TestWhatReachesNoClientIsReadyAgain without waiting for its ttr, and without an attempt.
func TestWhatReachesNoClientIsReadyAgain(t *testing.T) {
	c, _ := newClient(t)
	c.want("POST", "/api/job/produce?tube=T&jid=1&ttr=3600000", "x", 200, "true")
	consume := httptest.NewRequest(http.MethodGet, "/api/job/consume?tube=T", nil)
	c.h.ServeHTTP(brokenWriter{httptest.NewRecorder()}, consume)
	c.want("GET", "/api/job/consume?tube=T", "", 200, `[{"id":"1","dtr":0,"ttr":3600000,"noe":0,"data":"eA"}]`)
}

func TestWhatIsWrongIsTold(t *testing.T) {
	c, _ := newClient(t)
	const (
		dtr     = `{"code":2002,"desc":"job dtr is invalid"}`
		ttr     = `{"code":2003,"desc":"job ttr is invalid"}`
		noID    = `{"code":2001,"desc":"job id is empty"}`
		noTube  = `{"code":1001,"desc":"tube name is empty"}`
		name    = `{"code":1002,"desc":"tube name not match ^([a-z]|[A-Z])(\\w|-)*"}`
		long    = `{"code":1003,"desc":"tube name great than 64"}`
		unknown = `{"code":1000,"desc":"unknown tube name 'none'"}`
	)
	c.want("POST", "/api/job/produce?dtr=x&ttr=x", "", 400, dtr) // numbers, then jid, then tube
	c.want("POST", "/api/job/produce?dtr=&tube=T&jid=1", "", 400, dtr)
	c.want("POST", "/api/job/produce?ttr=&tube=T&jid=1", "", 400, ttr)
	c.want("POST", "/api/job/produce?dtr=1&ttr=9999999999999999999", "", 400, ttr)
	for _, route := range []string{
		"POST /api/job/produce", "DELETE /api/job/delete", "DELETE /api/job/finish", "PUT /api/job/release",
		"PUT /api/job/bury", "PUT /api/job/failure", "PUT /api/job/kick", "DELETE /api/job/discard",
	} {
		method, path, _ := strings.Cut(route, " ")
		c.want(method, path+"?tube=1", "", 400, noID)
		c.want(method, path+"?jid=1", "", 400, noTube)
		c.want(method, path+"?jid=1&tube=none", "", 400, unknown)
	}
	c.want("PUT", "/api/job/release?dtr=x", "", 400, dtr)
	c.want("PUT", "/api/job/kick?dtr=x", "", 400, dtr)
	for _, route := range []string{
		"GET /api/job/consume", "GET /api/job/peek", "POST /api/tube/create", "POST /api/tube/delete",
	} {
		method, path, _ := strings.Cut(route, " ")
		c.want(method, path, "", 400, noTube)
		c.want(method, path+"?tube=1a", "", 400, name)
		c.want(method, path+"?tube="+url.QueryEscape("a b"), "", 400, name)
		c.want(method, path+"?tube="+strings.Repeat("a", 65), "", 400, long)
	}
	c.want("GET", "/api/tube/stats/none", "", 400, unknown)
	c.want("POST", "/api/tube/delete?tube=none", "", 400, unknown)
	c.want("GET", "/api/job", "", 404, `{"code":404,"desc":"invalid path:/api/job"}`)
	if w := c.ask("POST", "/api/job/produce?tube=T&jid=1", strings.Repeat("x", 65)); w.Code != 400 ||
		!strings.HasPrefix(w.Body.String(), `{"code":2004,`) {
		t.Errorf("an oversized body: %d %s", w.Code, w.Body)
	}
	if w := c.ask("POST", "/api/job/produce?tube=T&jid=%00", ""); w.Code != 400 ||
		!strings.HasPrefix(w.Body.String(), `{"code":2005,`) {
		t.Errorf("an oversized id: %d %s", w.Code, w.Body)
	}
	for path, method := range map[string]string{"/api/job/consume": "POST", "/api/job/produce": "GET",
		"/api/tube/list": "PUT"} {
		if w := c.ask(method, path, ""); w.Code != 405 || w.Body.Len() > 0 || w.Header().Get("Allow") == "" {
			t.Errorf("%s %s: %d %q", method, path, w.Code, w.Body)
		}
	}
}

// Each command answers true in the states that it applies to, and changes nothing in the others.
func TestCommandsLookAtTheState(t *testing.T) {
	c, _ := newClient(t)
	states := map[string]func(id string){
		"none": func(string) {},
		"delayed": func(id string) {
			c.want("POST", "/api/job/produce?tube=T&dtr=3600000&ttr=600000&jid="+id, "x", 200, "true")
		},
		"ready": func(id string) { c.want("POST", "/api/job/produce?tube=T&ttr=600000&jid="+id, "x", 200, "true") },
	}
	states["retained"] = func(id string) {
		states["ready"](id)
		w := c.ask("GET", "/api/job/consume?tube=T&max=100", "")
		if !strings.Contains(w.Body.String(), `"id":"`+id+`"`) {
			t.Fatalf("consume: %s", w.Body)
		}
	}
	states["failed"] = func(id string) {
		states["retained"](id)
		c.want("PUT", "/api/job/bury?tube=T&jid="+id, "", 200, "true")
	}
	for _, command := range []struct {
		route, in string // the states in which it answers true
	}{
		{"POST /api/job/produce", "none retained failed"},
		{"DELETE /api/job/delete", "delayed ready"},
		{"DELETE /api/job/finish", "retained"},
		{"PUT /api/job/release", "retained"},
		{"PUT /api/job/bury", "retained"},
		{"PUT /api/job/failure", "retained"},
		{"PUT /api/job/kick", "failed"},
		{"DELETE /api/job/discard", "failed"},
	} {
		method, path, _ := strings.Cut(command.route, " ")
		// a consume would take the ready job
		for _, state := range []string{"none", "delayed", "retained", "failed", "ready"} {
			id := path[len("/api/job/"):] + "-" + state
			states[state](id)
			answer := "false"
			if strings.Contains(command.in, state) {
				answer = "true"
			}
			c.want(method, path+"?tube=T&jid="+id, "y", 200, answer)
			if again := c.ask(method, path+"?tube=T&jid="+id, "y").Body.String(); again != "false" {
				t.Errorf("%s of a job that was %s answers %s the second time", path, state, again)
			}
		}
		c.want("POST", "/api/tube/delete?tube=T", "", 200, "true")
		c.want("POST", "/api/tube/create?tube=T", "", 200, "true")
	}
}

func consumed(t *testing.T, w *httptest.ResponseRecorder) (jobs []job) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &jobs); err != nil ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s %s: %v", w.Header(), w.Body, err)
	}
	return jobs
}

func TestJobsAreConsumedByDueTime(t *testing.T) {
	c, _ := newClient(t)
	c.want("GET", "/api/job/consume?tube=T", "", 200, "[]")
	c.want("GET", "/api/job/peek?tube=T", "", 200, "[]")
	c.want("POST", "/api/job/produce?tube=T&jid=later&dtr=300", "\x00\xff?>", 200, "true")
	c.want("POST", "/api/job/produce?tube=T&id=now&ttr=1", "a", 200, "true") // as older clients name the parameter
	c.want("POST", "/api/job/produce?tube=T&jid=far&dtr=9000000000000&ttr=9000000000000", "a", 200, "true")
	c.want("DELETE", "/api/job/delete?tube=T&jid=far", "", 200, "true")
	if w := c.ask("GET", "/api/tube/stats/T", ""); !strings.HasSuffix(w.Body.String(),
		`"delayQueueSize":2,"retainQueueSize":0,"failedQueueSize":0}`) {
		t.Errorf("stats: %s", w.Body)
	}
	time.Sleep(400 * time.Millisecond) // the dtr is what is tested
	jobs := consumed(t, c.ask("GET", "/api/job/consume?tube=T&max=0", ""))
	if len(jobs) != 1 || jobs[0] != (job{ID: "now", TTR: 1000, Data: "YQ"}) {
		t.Errorf("first %+v", jobs)
	}
	jobs = consumed(t, c.ask("GET", "/api/job/consume?tube=T&max=9", ""))
	if len(jobs) != 1 || jobs[0] != (job{ID: "later", DTR: 300, TTR: 1000,
		Data: base64.RawURLEncoding.EncodeToString([]byte("\x00\xff?>"))}) {
		t.Errorf("then %+v", jobs)
	}
	if dtr := shown(&store.Job{CreatedAt: time.Now(), DueAt: time.Now().Add(-time.Hour)}, 0).DTR; dtr != 0 {
		t.Errorf("a job that was due when it was imported has the dtr %d", dtr)
	}
	again := map[string]int{}
	wait.For(t, "both are consumed again after their ttr", func() bool {
		for _, j := range consumed(t, c.ask("GET", "/api/job/consume?tube=T&max=9", "")) {
			again[j.ID] = j.NOE
		}
		return again["now"] > 0 && again["later"] > 0
	})
}

// TestAJobShowsWhatWasAskedForLast: its dtr is that of the last command with one, and executions are counted on.
func TestAJobShowsWhatWasAskedForLast(t *testing.T) {
	c, _ := newClient(t)
	consume := func(want string) {
		t.Helper()
		wait.For(t, "the job is consumed as "+want, func() bool {
			w := c.ask("GET", "/api/job/consume?tube=T", "")
			if w.Body.String() == "[]" {
				return false
			}
			if got := w.Body.String(); got != want {
				t.Fatalf("consume: %s, want %s", got, want)
			}
			return true
		})
	}
	c.want("POST", "/api/job/produce?tube=T&jid=1&dtr=-5&ttr=-60000", "x", 200, "true") // due at once; the shortest ttr
	consume(`[{"id":"1","dtr":0,"ttr":1000,"noe":0,"data":"eA"}]`)
	c.want("PUT", "/api/job/release?tube=T&jid=1&dtr=20", "", 200, "true")
	consume(`[{"id":"1","dtr":20,"ttr":1000,"noe":1,"data":"eA"}]`)
	c.want("PUT", "/api/job/bury?tube=T&jid=1", "", 200, "true")
	c.want("GET", "/api/job/peek?tube=T", "", 200, `[{"id":"1","dtr":20,"ttr":1000,"noe":2,"data":"eA"}]`)
	c.want("PUT", "/api/job/kick?tube=T&jid=1&dtr=30", "", 200, "true")
	consume(`[{"id":"1","dtr":30,"ttr":1000,"noe":2,"data":"eA"}]`)
	consume(`[{"id":"1","dtr":30,"ttr":1000,"noe":3,"data":"eA"}]`) // its ttr has passed
	c.want("PUT", "/api/job/release?tube=T&jid=1&dtr=-1", "", 200, "true")
	consume(`[{"id":"1","dtr":0,"ttr":1000,"noe":4,"data":"eA"}]`)
}

func TestTubes(t *testing.T) {
	c, _ := newClient(t)
	c.want("POST", "/api/tube/create?tube=a-B_9", "", 200, "true")
	c.want("POST", "/api/tube/create?tube=T", "", 200, "true")
	c.want("GET", "/api/tube/list", "", 200, `["T","a-B_9"]`)
	c.want("POST", "/api/job/produce?tube=a-B_9&jid=1&dtr=3600000", "", 200, "true")
	var stats []tubeStats
	if err := json.Unmarshal(c.ask("GET", "/api/tube/stats", "").Body.Bytes(), &stats); err != nil || len(stats) != 2 ||
		stats[1].TubeName != "a-B_9" || stats[1].DelayQueueSize != 1 ||
		time.Since(time.UnixMilli(stats[1].DateTime)) > time.Minute {
		t.Errorf("stats: %+v %v", stats, err)
	}
	c.want("POST", "/api/tube/delete?tube=a-B_9", "", 200, "true")
	c.want("POST", "/api/tube/create?tube=a-B_9", "", 200, "true")
	c.want("DELETE", "/api/job/delete?tube=a-B_9&jid=1", "", 200, "false") // its jobs were deleted with it
}

// TestATubeThatWasJustCreatedIsKnown to all gateways, before they would read the registry again.
func TestATubeThatWasJustCreatedIsKnown(t *testing.T) {
	c, q := newClient(t)
	if err := createTubes(t.Context(), q.OpenRegistry(t), "other"); err != nil {
		t.Fatal(err)
	}
	c.want("GET", "/api/job/consume?tube=other", "", 200, "[]")
}

func TestTheWebAsksForALogin(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	now, passwords := time.Now(), map[string]string{"ops": "secret", "dev": "x"}
	clock := func() time.Time { return now }
	s := NewWeb(New(pulltest.Endpoint(t, "grape"), q, q.Registry, 0), gateway.NewAccounts(passwords, clock))
	s.now = clock
	c := &client{T: t, h: s.handler()}
	for body, answer := range map[string]string{
		"":                                   `{"code":3000,"desc":"username is empty"}`,
		`{"username":"ops"}`:                 `{"code":3001,"desc":"password is empty"}`,
		`{"username":"ops","password":"x"}`:  `{"code":3002,"desc":"username or password is error"}`,
		`{"username":"none","password":"x"}`: `{"code":3002,"desc":"username or password is error"}`,
	} {
		c.want("POST", "/api/authen/login", body, 400, answer)
	}
	for _, path := range []string{"/api/tube/stats", "/api/tube/list", "/api/job/consume?tube=T", "/x"} {
		c.want("GET", path, "", 401, "")
	}
	w := c.ask("POST", "/api/authen/login", `{"username":"ops","password":"secret"}`)
	cookie := w.Result().Cookies()[0]
	if w.Code != 200 || w.Body.String() != `"`+cookie.Value+`"` || cookie.Name != "grape.session" || !cookie.HttpOnly {
		t.Errorf("login: %d %s %s", w.Code, w.Body, w.Header())
	}
	c.cookie = cookie.Name + "=" + cookie.Value
	c.want("GET", "/api/tube/stats", "", 200, "[]")
	c.want("POST", "/api/tube/create?tube=T", "", 200, "true")
	c.want("GET", "/api/tube/list", "", 200, `["T"]`)
	c.want("POST", "/api/tube/delete?tube=T", "", 200, "true")
	c.want("GET", "/api/job/consume?tube=T", "", 404, `{"code":404,"desc":"invalid path:/api/job/consume"}`)
	for _, id := range []string{"", cookie.Value[:20], cookie.Value + "A", hashOf(cookie.Value)} {
		c.cookie = "grape.session=" + id
		c.want("GET", "/api/tube/list", "", 401, "")
	}
	if w := c.ask("GET", "/api/authen/logout", ""); w.Code != 200 || w.Body.String() != "null" ||
		w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("logout: %d %s %s", w.Code, w.Body, w.Header())
	}
}

// TestAnAttackerLearnsNothingFromASession: neither its cookie nor the database lets a guess of the password be checked.
// It ends with a logout, a change of the password, after a time, and when many others have begun.
func TestAnAttackerLearnsNothingFromASession(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	now, passwords := time.Now(), map[string]string{"ops": "secret"}
	clock := func() time.Time { return now }
	web := func() *Web {
		s := NewWeb(New(pulltest.Endpoint(t, "grape"), q, q.Registry, 0), gateway.NewAccounts(passwords, clock))
		s.now = clock
		return s
	}
	s := web()
	c := &client{T: t, h: s.handler()}
	login := func() string {
		t.Helper()
		w := c.ask("POST", "/api/authen/login", `{"username":"ops","password":"secret"}`)
		if w.Code != 200 {
			t.Fatalf("login: %d %s", w.Code, w.Body)
		}
		c.cookie = "grape.session=" + w.Result().Cookies()[0].Value
		c.want("GET", "/api/tube/list", "", 200, "[]")
		return c.cookie
	}
	first, second := login(), login()
	if id := strings.TrimPrefix(first, "grape.session="); len(id) != 26 || first == second ||
		strings.Contains(string(q.Registry.Snapshot().Settings[sessionsSetting]), id) {
		t.Errorf("the sessions %q and %q are predictable, or stored", first, second)
	}
	c.h = web().handler() // another process
	c.want("GET", "/api/authen/logout", "", 200, "null")
	c.h = s.handler()
	c.want("GET", "/api/tube/list", "", 401, "")
	c.cookie = first
	c.want("GET", "/api/tube/list", "", 200, "[]")
	passwords["ops"] = "changed"
	c.want("GET", "/api/tube/list", "", 401, "")
	passwords["ops"] = "secret"
	for range maxSessions {
		now = now.Add(time.Second)
		login()
	}
	last := c.cookie
	if n := len(s.sessions()); n != maxSessions {
		t.Errorf("%d sessions are stored", n)
	}
	c.cookie = first
	c.want("GET", "/api/tube/list", "", 401, "")
	now = now.Add(sessionLife)
	c.cookie = last
	c.want("GET", "/api/tube/list", "", 401, "")
}

// TestTheWebLimitsGuesses: after five wrong passwords, the right one is refused for a while, too, with the time to
// wait; other addresses and users are not affected.
func TestTheWebLimitsGuesses(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	now, passwords := time.Now(), map[string]string{"ops": "secret", "dev": "x"}
	clock := func() time.Time { return now }
	s := NewWeb(New(pulltest.Endpoint(t, "grape"), q, q.Registry, 0), gateway.NewAccounts(passwords, clock))
	s.now = clock
	c := &client{T: t, h: s.handler()}
	for range 5 {
		c.want("POST", "/api/authen/login", `{"username":"ops","password":"guess"}`, 400,
			`{"code":3002,"desc":"username or password is error"}`)
	}
	login := `{"username":"ops","password":"secret"}`
	w := c.ask("POST", "/api/authen/login", login)
	if w.Code != 429 || w.Header().Get("Retry-After") != "300" || !strings.Contains(w.Body.String(), `"code":3003`) {
		t.Errorf("after five guesses: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := c.ask("POST", "/api/authen/login", `{"username":"dev","password":"x"}`); w.Code != 200 {
		t.Errorf("another user: %d %s", w.Code, w.Body)
	}
	now = now.Add(5 * time.Minute)
	for range 10 { // a successful login does not count as a failure
		if w := c.ask("POST", "/api/authen/login", login); w.Code != 200 {
			t.Errorf("later: %d %s", w.Code, w.Body)
		}
	}
}

// TestATopicsTTRIsShown for a job of the API without its own ttr.
func TestATopicsTTRIsShown(t *testing.T) {
	c, q := newClient(t)
	if r := q.Push(t.Context(), store.Push{Topic: topicOf("T"), ID: "7", Body: []byte("x")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	if jobs := consumed(t, c.ask("GET", "/api/job/consume?tube=T", "")); len(jobs) != 1 || jobs[0].TTR != 10_000 {
		t.Errorf("consume: %+v", jobs)
	}
	c.want("PUT", "/api/job/bury?tube=T&jid=7", "", 200, "true")
	if jobs := consumed(t, c.ask("GET", "/api/job/peek?tube=T", "")); len(jobs) != 1 || jobs[0].TTR != 10_000 {
		t.Errorf("peek: %+v", jobs)
	}
}

// TestAnOfflineTubeTakesNoJobs, while jobs that it has can be deleted.
func TestAnOfflineTubeTakesNoJobs(t *testing.T) {
	c, q := newClient(t)
	c.want("POST", "/api/job/produce?tube=T&jid=1&dtr=3600000", "x", 200, "true")
	q.TakeOffline(t, Namespace)
	c.want("POST", "/api/job/produce?tube=T&jid=2", "x", 400, `{"code":1004,"desc":"tube 'T' is offline"}`)
	c.want("DELETE", "/api/job/delete?tube=T&jid=1", "", 200, "true")
}
