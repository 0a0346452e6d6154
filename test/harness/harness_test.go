package harness

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The laws are those of ledger.Judge. What the harness adds are the calls, the dead jobs, and the limit of repeats.
func TestLedgerFindsFaults(t *testing.T) {
	call := Call{Key: Key{"t", "a"}, At: time.Now(), Status: 200, Sent: 200, Body: []byte(`{"job":"t/a"}`)}
	twice := []Call{call, call}
	twice[0].N, twice[1].N = 1, 2
	for name, c := range map[string]struct {
		calls    []Call
		dead     string
		repeats  int // those that are allowed
		law, err string
	}{
		"called":        {calls: []Call{call}, dead: `{"jobs":[]}`},
		"dead":          {dead: `{"jobs":[{"id":"a"}]}`},
		"lost":          {dead: `{"jobs":[]}`, law: "LOST: t/a"},
		"twice":         {calls: twice, dead: `{"jobs":[]}`, law: "TWICE: t/a", err: "1 deliveries"},
		"allowed twice": {calls: twice, dead: `{"jobs":[]}`, repeats: 1},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Query().Get("state") {
				case "dead":
					fmt.Fprint(w, c.dead)
				default:
					fmt.Fprint(w, `{"due_at":"2026-01-02T03:04:05.678Z"}`)
				}
			}))
			defer srv.Close()
			l, api := NewLedger(), NewAPI(srv.URL, "")
			l.MustPush(t, api, "t", "a", nil)
			for n := range c.calls {
				c.calls[n].At = time.Now()
			}
			v, err := l.judge(api, &Endpoint{calls: c.calls}, c.repeats)
			if got := strings.Join(v.Wrong, "; "); !strings.HasPrefix(got, c.law) || (c.law == "") != (got == "") {
				t.Errorf("the verdict is %q, want %q", got, c.law)
			}
			if !strings.HasPrefix(fmt.Sprint(err), cmp.Or(c.err, "<nil>")) {
				t.Errorf("the error is %v, want %q", err, c.err)
			}
		})
	}
}

func TestLedgerRecordsAnswers(t *testing.T) {
	status := http.StatusCreated
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, `{"due_at":"2026-01-02T03:04:05.678Z"}`)
	}))
	api, l := NewAPI(srv.URL, ""), NewLedger()
	for n, s := range []int{201, 200, 400, 503} {
		status = s
		l.Push(context.Background(), api, "t", fmt.Sprint(n), nil)
	}
	srv.Close()
	l.Push(context.Background(), api, "t", "no answer", nil)
	if len(l.pushes()) != 5 || l.Acknowledged() != 2 || l.Unknown() != 2 {
		t.Errorf("recorded %+v", l.Events())
	}
}

func TestRedisComesBackWithItsData(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes; run without -short")
	}
	r := StartRedis(t, RedisOptions{Password: "pw"})
	r.Do("SET", "a", "1")
	r.Kill9()
	r.Restart()
	if got := r.Do("GET", "a"); got != "1" {
		t.Errorf("GET a returned %v", got)
	}
	r.Pause()
	if r.Try("PING") == nil {
		t.Error("a paused server answers")
	}
	r.Resume()
}
