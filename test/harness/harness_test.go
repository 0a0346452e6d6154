package harness

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A verdict that can never be negative is worthless, so each law of the ledger is broken once.
func TestLedgerFindsFaults(t *testing.T) {
	due := time.Now().Truncate(time.Millisecond)
	called := func(id string, at time.Time) Call { return Call{Key: Key{"t", id}, At: at, Status: 200} }
	for name, c := range map[string]struct {
		calls      []Call
		dead       string // id of a dead job
		deleted    bool
		fault      string
		duplicates int
	}{
		"fine":        {calls: []Call{called("a", due)}},
		"dead":        {dead: "a"},
		"deleted":     {deleted: true},
		"lost":        {fault: "LOST: t/a"},
		"invented":    {calls: []Call{called("a", due), called("b", due)}, fault: "INVENTED: t/b"},
		"early":       {calls: []Call{called("a", due.Add(-time.Millisecond))}, fault: "EARLY: t/a"},
		"twice":       {calls: []Call{called("a", due), called("a", due)}, duplicates: 1},
		"after a 500": {calls: []Call{{Key: Key{"t", "a"}, At: due, Status: 500}, called("a", due)}},
	} {
		t.Run(name, func(t *testing.T) {
			page := `{"jobs":[]}`
			if c.dead != "" {
				page = fmt.Sprintf(`{"jobs":[{"topic":"t","id":%q}]}`, c.dead)
			}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, page)
			}))
			defer srv.Close()
			l := NewLedger()
			key := Key{"t", "a"}
			l.attempted[key], l.acknowledged[key] = true, due
			if c.deleted {
				l.deleted[key] = true
			}
			tally, faults := l.judge(NewAPI(srv.URL, ""), &Endpoint{calls: c.calls})
			if got := strings.Join(faults, "; "); !strings.HasPrefix(got, c.fault) || (c.fault == "") != (got == "") {
				t.Errorf("faults are %q, want %q", got, c.fault)
			}
			if tally.Duplicates != c.duplicates {
				t.Errorf("%d duplicates, want %d", tally.Duplicates, c.duplicates)
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
	if len(l.attempted) != 5 || len(l.acknowledged) != 2 || len(l.refused) != 1 || len(l.unknown) != 2 {
		t.Errorf("booked %+v", l)
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
