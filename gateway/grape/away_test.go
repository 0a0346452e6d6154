package grape

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/pulltest"
)

// TestAFaultIsNotTheClients: without a shard every command answers 500 with the reason. The tubes are still known.
func TestAFaultIsNotTheClients(t *testing.T) {
	c, q := newClient(t)
	q.Redis.Shutdown()
	for _, route := range []string{
		"POST /api/job/produce", "DELETE /api/job/delete", "GET /api/job/consume", "DELETE /api/job/finish",
		"PUT /api/job/release", "PUT /api/job/bury", "PUT /api/job/failure", "GET /api/job/peek", "PUT /api/job/kick",
		"DELETE /api/job/discard", "GET /api/tube/stats", "GET /api/tube/stats/T",
	} {
		method, path, _ := strings.Cut(route, " ")
		w := c.ask(method, path+"?tube=T&jid=1", "x")
		if w.Code != 500 || !strings.HasPrefix(w.Body.String(), `{"code":9999,"desc":"`) ||
			!strings.Contains(w.Body.String(), "no shard is available") {
			t.Errorf("%s: %d %s", route, w.Code, w.Body)
		}
	}
	c.want("GET", "/api/tube/list", "", 200, `["T"]`)
}

// TestAFullRedisRefusesProducersOnly, because consumers empty it.
func TestAFullRedisRefusesProducersOnly(t *testing.T) {
	c, q := newClient(t)
	c.want("POST", "/api/job/produce?tube=T&jid=1&ttr=600000", "x", 200, "true")
	q.Redis.ConfigSet("maxmemory", "1")
	w := c.ask("POST", "/api/job/produce?tube=T&jid=2", "x")
	if w.Code != 500 || !strings.Contains(w.Body.String(), "full") {
		t.Errorf("produce: %d %s", w.Code, w.Body)
	}
	if jobs := consumed(t, c.ask("GET", "/api/job/consume?tube=T", "")); len(jobs) != 1 {
		t.Errorf("consumed %+v", jobs)
	}
	c.want("DELETE", "/api/job/finish?tube=T&jid=1", "", 200, "true")
}

// TestTubesDoNotNeedTheDatabase once they were created; only changes of them do, and the error is logged.
func TestTubesDoNotNeedTheDatabase(t *testing.T) {
	c, q := newClient(t)
	if err := q.Registry.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/tube/create?tube=U", "/api/tube/delete?tube=T"} {
		c.want("POST", path, "", 500, `{"code":9999,"desc":"internal error"}`)
	}
	c.want("GET", "/api/tube/list", "", 200, `["T"]`)
	c.want("POST", "/api/job/produce?tube=T&jid=1", "x", 200, "true")
	if jobs := consumed(t, c.ask("GET", "/api/job/consume?tube=T", "")); len(jobs) != 1 {
		t.Errorf("consumed %+v", jobs)
	}
}

// TestAConsumeBringsMoreThanAReserve, which leases at most a hundred jobs.
func TestAConsumeBringsMoreThanAReserve(t *testing.T) {
	c, _ := newClient(t)
	const n = maxTake + 20
	for i := range n {
		c.want("POST", fmt.Sprintf("/api/job/produce?tube=T&ttr=600000&jid=%d", i), "x", 200, "true")
	}
	first := consumed(t, c.ask("GET", fmt.Sprintf("/api/job/consume?tube=T&max=%d", maxTake+10), ""))
	rest := consumed(t, c.ask("GET", "/api/job/consume?tube=T&max=9223372036854775807", ""))
	if len(first) != maxTake+10 || len(rest) != 10 {
		t.Errorf("consumed %d and then %d of %d", len(first), len(rest), n)
	}
	c.want("GET", "/api/job/consume?tube=T&max=99999999999999999999", "", 200, "[]")
}

// TestFailedJobsAreShownWhole, the oldest first, up to the requested number.
func TestFailedJobsAreShownWhole(t *testing.T) {
	c, _ := newClient(t)
	long := strings.Repeat("x", 64)
	for _, id := range []string{"b", "a", "c"} {
		c.want("POST", "/api/job/produce?tube=T&ttr=600000&jid="+id, long, 200, "true")
		c.ask("GET", "/api/job/consume?tube=T", "")
		c.want("PUT", "/api/job/bury?tube=T&jid="+id, "", 200, "true")
	}
	for query, want := range map[string]string{"": "b", "&max=2": "b a", "&max=0": "b", "&max=9999999": "b a c"} {
		var ids []string
		for _, j := range consumed(t, c.ask("GET", "/api/job/peek?tube=T"+query, "")) {
			if ids = append(ids, j.ID); len(j.Data) != 86 || j.NOE != 1 {
				t.Errorf("%s shows %+v", query, j)
			}
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("peek%s shows %s, want %s", query, got, want)
		}
	}
	c.want("PUT", "/api/job/kick?tube=T&jid=b&dtr=3600000", "", 200, "true") // delayed, so that no consumer takes it
	c.want("GET", "/api/job/consume?tube=T", "", 200, "[]")
	c.want("DELETE", "/api/job/delete?tube=T&jid=b", "", 200, "true")
}

// TestIDsAreUniqueInTheirTube only.
func TestIDsAreUniqueInTheirTube(t *testing.T) {
	c, _ := newClient(t)
	c.want("POST", "/api/tube/create?tube=t", "", 200, "true") // names are case-sensitive
	for _, tube := range []string{"T", "t"} {
		c.want("POST", "/api/job/produce?ttr=600000&jid=1&tube="+tube, tube, 200, "true")
	}
	c.want("DELETE", "/api/job/delete?tube=T&jid=1", "", 200, "true")
	c.want("GET", "/api/job/consume?tube=t", "", 200, `[{"id":"1","dtr":0,"ttr":600000,"noe":0,"data":"dA"}]`)
	c.want("DELETE", "/api/job/finish?tube=T&jid=1", "", 200, "false")
	c.want("POST", "/api/tube/delete?tube=T", "", 200, "true") // does not change the other tube
	c.want("DELETE", "/api/job/finish?tube=t&jid=1", "", 200, "true")
}

// TestALoginIsReadToItsLimit: unauthenticated clients must not fill the memory.
func TestALoginIsReadToItsLimit(t *testing.T) {
	t.Parallel()
	q := pulltest.Start(t, Namespace)
	s := NewWeb(New(pulltest.Endpoint(t, "grape"), q, q.Registry, 0),
		gateway.NewAccounts(map[string]string{"ops": "secret"}, time.Now))
	c := &client{T: t, h: s.handler()}
	long := `{"x":"` + strings.Repeat("x", maxLogin) + `","username":"ops","password":"secret"}`
	c.want("POST", "/api/authen/login", long, 400, `{"code":3000,"desc":"username is empty"}`)
	c.want("GET", "/api/authen/login", "", 405, "")
	c.want("POST", "/api/authen/logout", "", 405, "")
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/api/tube/list", nil)
	r.AddCookie(cookie("unknown", 1))
	if c.h.ServeHTTP(w, r); w.Code != 401 {
		t.Errorf("an unknown cookie: %d", w.Code)
	}
}

// TestAnAnswerHasABound: a client may request any number of jobs. It gets the others with its next request.
func TestAnAnswerHasABound(t *testing.T) {
	c, q := newClient(t)
	pushes := make([]store.Push, 2*maxTake+10)
	body := bytes.Repeat([]byte("x"), maxAnswer/maxTake/2+1)
	for i := range pushes {
		pushes[i] = store.Push{Topic: topicOf("T"), ID: strconv.Itoa(i), Body: body, TTR: time.Hour}
	}
	for _, r := range q.PushBatch(t.Context(), pushes) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	jobs := consumed(t, c.ask("GET", "/api/job/consume?tube=T&max=1000000", ""))
	if len(jobs) != 2*maxTake {
		t.Fatalf("%d jobs were consumed at once", len(jobs))
	}
	for _, j := range jobs {
		c.want("PUT", "/api/job/bury?tube=T&jid="+j.ID, "", 200, "true")
	}
	if n := len(consumed(t, c.ask("GET", "/api/job/peek?tube=T&max=1000000", ""))); n != 2*maxTake {
		t.Errorf("%d jobs were shown at once", n)
	}
	if n := len(consumed(t, c.ask("GET", "/api/job/consume?tube=T&max=1000000", ""))); n != 10 {
		t.Errorf("then, %d jobs were consumed", n)
	}
}
