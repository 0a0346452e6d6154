package relay

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/wakecall/wakecall/client"
	"github.com/wakecall/wakecall/relay/ddl"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/wait"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// each runs a test on every database, with an empty outbox.
func each(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts database servers; run without -short")
	}
	t.Parallel()
	for database, dsn := range map[string]func(t *testing.T) string{
		ddl.MySQL:    func(t *testing.T) string { return dbtest.EmptyMariaDB(t) },
		ddl.Postgres: func(t *testing.T) string { return dbtest.EmptyPostgres(t) },
		ddl.SQLite:   newSQLite,
	} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			dsn := dsn(t)
			script, err := ddl.Of(database, ddl.Table)
			if err != nil {
				t.Fatal(err)
			}
			table := openTable(t, dsn)
			for _, s := range ddl.Statements(script) {
				if _, err := table.db.Exec(s); err != nil {
					t.Fatalf("%s: %v", s, err)
				}
			}
			test(t, dsn)
		})
	}
}

func newSQLite(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "outbox.db")
	db, err := sql.Open("sqlite", file)
	if err == nil {
		_, err = db.Exec("PRAGMA journal_mode = WAL")
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	return "sqlite://" + file
}

func openTable(t *testing.T, dsn string) *Table {
	t.Helper()
	table, err := Open(dsn, ddl.Table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	return table
}

// insert writes a row and returns its seq.
func (t *Table) insert(tb testing.TB, row map[string]any) int64 {
	tb.Helper()
	tx, err := t.db.Begin()
	if err != nil {
		tb.Fatal(err)
	}
	seq := t.insertIn(tb, tx, row)
	if err := tx.Commit(); err != nil {
		tb.Fatal(err)
	}
	return seq
}

func (t *Table) insertIn(tb testing.TB, tx *sql.Tx, row map[string]any) (seq int64) {
	tb.Helper()
	names, marks, values := "", "", []any{}
	for name, value := range row {
		if names != "" {
			names, marks = names+", ", marks+", "
		}
		names, marks, values = names+name, marks+"?", append(values, value)
	}
	insert := t.sql("INSERT INTO @table (" + names + ") VALUES (" + marks + ")")
	if t.dialect.name == ddl.Postgres {
		if err := tx.QueryRow(insert+" RETURNING seq", values...).Scan(&seq); err != nil {
			tb.Fatal(err)
		}
		return seq
	}
	result, err := tx.Exec(insert, values...)
	if err != nil {
		tb.Fatal(err)
	}
	seq, _ = result.LastInsertId()
	return seq
}

// left returns the states of the rows by seq.
func (t *Table) left(tb testing.TB) map[int64]string {
	tb.Helper()
	rows, err := t.rows(tb.Context(), "ORDER BY seq", nil)
	if err != nil {
		tb.Fatal(err)
	}
	left := map[int64]string{}
	for _, r := range rows {
		left[r.Seq] = r.State
	}
	return left
}

func (t *Table) empty(tb testing.TB) {
	tb.Helper()
	wait.For(tb, "the outbox to be empty", func() bool { return len(t.left(tb)) == 0 })
}

// call is a request about a job or a group, as the fake API has applied it.
type call struct {
	op, topic, id, body, group string
	due                        int64
}

// api is a server that applies calls in the order in which they come. fault may answer a call instead: with a status,
// 0 for none.
type api struct {
	*httptest.Server
	fault func(c call) (status int)
	lost  func(c call) bool // applied, but not answered

	mu      sync.Mutex
	applied []call
	batches int
	running map[string]int // calls of a key at once
	overlap atomic.Int64
}

func newAPI(t testing.TB) *api {
	t.Helper()
	a := &api{fault: func(call) int { return 0 }, lost: func(call) bool { return false }, running: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs", a.push)
	one := func(op string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			c := call{op: op, topic: r.PathValue("topic"), id: r.PathValue("id"), group: r.PathValue("group")}
			var in struct {
				Body jsontext.Value `json:"body"`
				Due  int64          `json:"due_at"`
			}
			_ = json.UnmarshalRead(r.Body, &in)
			c.body, c.due = string(in.Body), in.Due
			if status := a.do(c); status != 0 {
				problem(w, status)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		}
	}
	mux.HandleFunc("PATCH /v1/topics/{topic}/jobs/{id}", one(opChange))
	mux.HandleFunc("DELETE /v1/topics/{topic}/jobs/{id}", one(opDelete))
	mux.HandleFunc("DELETE /v1/groups/{group}", one(opCancelGroup))
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Server.Close)
	return a
}

func problem(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"status":%d,"code":"x","detail":"fault %[1]d"}`, status)
}

func (a *api) push(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Jobs []struct {
			Topic, ID, Group string
			Body             jsontext.Value
			Due              int64 `json:"due_at"`
		}
	}
	if err := json.UnmarshalRead(r.Body, &in, json.MatchCaseInsensitiveNames(true)); err != nil {
		problem(w, http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	a.batches++
	a.mu.Unlock()
	answer := ""
	for i, j := range in.Jobs {
		if i > 0 {
			answer += ","
		}
		status := a.do(call{op: opPush, topic: j.Topic, id: j.ID, group: j.Group, body: string(j.Body), due: j.Due})
		if status == 0 {
			answer += `{"state":"delayed"}`
		} else {
			answer += fmt.Sprintf(`{"error":{"status":%d,"code":"x","detail":"fault %[1]d"}}`, status)
		}
	}
	_, _ = fmt.Fprintf(w, `{"results":[%s]}`, answer)
}

// do applies a call, and counts those of one job that run at once.
func (a *api) do(c call) int {
	key := c.topic + " " + c.id + c.group
	a.mu.Lock()
	a.running[key]++
	if a.running[key] > 1 {
		a.overlap.Add(1)
	}
	a.mu.Unlock()
	status := a.fault(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[key]--
	if status == 0 {
		a.applied = append(a.applied, c)
		if a.lost(c) {
			panic(http.ErrAbortHandler)
		}
	}
	return status
}

// calls returns what was applied to a job, or to a group with an empty topic.
func (a *api) calls(topic, id string) (list []call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.applied {
		if c.topic == topic && (c.id == id || topic == "" && c.group == id) {
			list = append(list, c)
		}
	}
	return list
}

func (a *api) total() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.applied)
}

// newRelay returns a relay with short times, on connections of its own.
func newRelay(t testing.TB, dsn string, a *api, change func(o *Options)) *Relay {
	t.Helper()
	table, err := Open(dsn, ddl.Table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = table.Close() })
	c, err := client.New(client.Options{URL: a.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	o := Options{Table: table, Client: c, Log: slog.New(slog.DiscardHandler), Poll: 10 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	return New(o)
}

// start runs a relay until stop, or the end of the test.
func (r *Relay) start(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Run(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}
