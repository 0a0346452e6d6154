package harness

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
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
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page) }))
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
	if err := r.run("PING").Err(); err == nil {
		t.Error("a paused server answers")
	}
	r.Resume()
	r.Shutdown()
}

func TestMariaDBComesBackWithItsData(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes; run without -short")
	}
	m := StartMariaDB(t)
	m.Exec("CREATE TABLE x (n INT); INSERT INTO x VALUES (7)")
	m.Kill9()
	m.Start()
	if got := m.Exec("SELECT n FROM x"); strings.TrimSpace(got) != "7" {
		t.Errorf("SELECT returned %q", got)
	}
}

func TestNothingOutlivesItsDirectory(t *testing.T) {
	dir := newDir(t, "guard")
	cmd := exec.Command("sleep", "600")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killBelow(t, dir)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Success() {
		t.Errorf("the process ended with %v, want it killed", cmd.ProcessState)
	}
}

// TestGuard: when a test process is killed, the processes that it started are killed, too.
func TestGuard(t *testing.T) {
	if dir := os.Getenv("HARNESS_GUARDED"); dir != "" {
		guarded(dir)
		return
	}
	dir := newDir(t, "guarded")
	cmd := exec.Command(os.Args[0], "-test.run=^TestGuard$")
	cmd.Env = append(os.Environ(), "HARNESS_GUARDED="+dir)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the guarded process succeeded:\n%s", out)
	}
	Eventually(t, Patience, "the sleeper to be killed", func() error {
		return Equal("processes", len(pidsBelow(dir)), 0)
	})
}

// guarded starts a sleeper under a guard of its own and exits without stopping it.
func guarded(dir string) {
	if err := startGuard(dir); err != nil {
		panic(err)
	}
	cmd := exec.Command("sleep", "600")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	panic("killed")
}
