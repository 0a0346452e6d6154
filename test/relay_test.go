package test

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/relay/ddl"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// outbox is a service's database with an outbox table.
type outbox struct {
	*sql.DB
	dsn string
}

// eachOutbox runs a test with an outbox in each database.
func eachOutbox(t *testing.T, test func(t *testing.T, o *outbox)) {
	t.Helper()
	for database, open := range map[string]func(t *testing.T) *outbox{
		ddl.MySQL: func(t *testing.T) *outbox {
			s := dbtest.StartServer(t)
			return &outbox{s.Connect(t, "wakecall"), s.DSN("wakecall")}
		},
		ddl.Postgres: func(t *testing.T) *outbox {
			s := dbtest.StartPostgres(t)
			return &outbox{s.Connect(t, "wakecall"), s.DSN("wakecall")}
		},
		ddl.SQLite: newSQLiteOutbox,
	} {
		t.Run(database, func(t *testing.T) {
			o := open(t)
			script, err := ddl.Of(database, ddl.Table)
			if err != nil {
				t.Fatal(err)
			}
			o.exec(t, ddl.Statements(script)...)
			test(t, o)
		})
	}
}

func newSQLiteOutbox(t *testing.T) *outbox {
	t.Helper()
	file := filepath.Join(process.Dir(t, "sqlite"), "shop.db")
	db, err := sql.Open("sqlite", file+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err == nil {
		err = db.Ping()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &outbox{db, "sqlite://" + file}
}

// exec runs statements, each in a transaction of its own.
func (o *outbox) exec(t *testing.T, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := o.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func (o *outbox) rows(t *testing.T) (n int) {
	t.Helper()
	if err := o.QueryRow("SELECT COUNT(*) FROM wakecall_outbox").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (o *outbox) isEmpty(t *testing.T) {
	t.Helper()
	harness.Eventually(t, soon, "the outbox to be empty", func() error {
		return harness.Equal("the rows left", o.rows(t), 0)
	})
}

// startRelay starts `wakecall relay` on an outbox.
func (i *installation) startRelay(t *testing.T, o *outbox, name string, args ...string) *process.Process {
	t.Helper()
	cmd := i.Command(append([]string{"relay", "--dsn", o.dsn, "--topics", "*"}, args...)...)
	return process.Start(t, i.Dir, name, cmd)
}

// What a transaction has written is applied in its order, and what was rolled back is not.
func TestRelayCarriesTransactions(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	eachOutbox(t, func(t *testing.T, o *outbox) {
		topic := strings.ReplaceAll(strings.ToLower(filepath.Base(t.Name())), "_", "-")
		i.MustPutTopic(t, topic, M{"callback_url": i.endpoint.URL("/" + topic)})
		o.exec(t, "INSERT INTO wakecall_outbox (op, topic, job_id, body, delay_ms, group_name) VALUES "+
			"('push', '"+topic+"', 'a', '{\"n\": 1.0}', 3600000, 'order-"+topic+"')",
			"INSERT INTO wakecall_outbox (op, topic, job_id, delay_ms) VALUES ('change', '"+topic+"', 'a', 7200000)",
			"INSERT INTO wakecall_outbox (op, topic, job_id, body) VALUES ('push', '"+topic+"', 'now', '1')",
			"INSERT INTO wakecall_outbox (op, topic, body) VALUES ('push', '"+topic+"', '2')",
			"INSERT INTO wakecall_outbox (op, topic, job_id, body, delay_ms) "+
				"VALUES ('push', '"+topic+"', 'gone', '3', 60000)",
			"INSERT INTO wakecall_outbox (op, topic, job_id) VALUES ('delete', '"+topic+"', 'gone')")
		tx, err := o.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO wakecall_outbox (op, topic, job_id, body) VALUES ('push', '" + topic +
			"', 'never', '4')"); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		addr := fmt.Sprintf("127.0.0.1:%d", freeport.TCP(t))
		relay := i.startRelay(t, o, "relay-"+topic, "--metrics", addr)
		o.isEmpty(t)
		job := i.MustGet(t, topic, "a")
		if string(job.Body) != `{"n": 1.0}` || time.Until(job.DueAt) < time.Hour+50*time.Minute {
			t.Errorf("the job is %s, due at %s", job.Body, job.DueAt)
		}
		if info, _ := process.Read(relay.PID()); strings.Contains(info.Title, o.dsn) {
			t.Errorf("the DSN is in the process title: %s", info.Title)
		}
		calls := i.endpoint.WaitCalls(t, topic, 2)
		for _, c := range calls {
			if c.ID == "never" || c.ID == "gone" {
				t.Errorf("%s was called", c.ID)
			}
		}
		o.exec(t, "INSERT INTO wakecall_outbox (op, group_name) VALUES ('cancel_group', 'order-"+topic+"')")
		o.isEmpty(t)
		i.MustDo(t, http.StatusNotFound, http.MethodGet, "/v1/topics/"+topic+"/jobs/a", nil)
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if !strings.Contains(string(text), `wakecall_relay_rows_total{op="push",result="done"} 4`) {
			t.Errorf("the metrics are %s", text)
		}
		relay.Signal(15)
		if code := relay.WaitExit(); code != 0 {
			t.Errorf("the relay ended with %d", code)
		}
	})
}

// Two relays carry a backlog while one of them is killed again and again: each job ends as its last row says.
func TestRelayKilledUnderLoad(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	jobs := 300
	measured, _ := strconv.Atoi(os.Getenv("WAKECALL_TEST_RELAY_JOBS"))
	if measured > 0 {
		jobs = measured
	}
	eachOutbox(t, func(t *testing.T, o *outbox) {
		topic := strings.ToLower(filepath.Base(t.Name()))
		i.MustPutTopic(t, topic, M{"callback_url": i.endpoint.URL("/" + topic), "remember": "1h"})
		due := time.Now().Add(time.Hour).UnixMilli()
		for from := 0; from < jobs; from += 100 {
			var push, change, drop []string
			for n := from; n < from+100; n++ {
				push = append(push, fmt.Sprintf("('push', '%s', 'j-%d', '%[2]d', %d)", topic, n, due))
				change = append(change, fmt.Sprintf("('change', '%s', 'j-%d', '\"new\"', %d)", topic, n, due+int64(n)))
				if n%3 == 0 {
					drop = append(drop, fmt.Sprintf("('delete', '%s', 'j-%d', NULL, NULL)", topic, n))
				}
			}
			for _, values := range [][]string{push, change, drop} {
				o.exec(t, "INSERT INTO wakecall_outbox (op, topic, job_id, body, due_at) VALUES "+
					strings.Join(values, ", "))
			}
		}
		total, began := o.rows(t), time.Now()
		i.startRelay(t, o, "relay-1-"+topic)
		killed := i.startRelay(t, o, "relay-2-"+topic)
		if measured == 0 {
			for range 4 {
				time.Sleep(150 * time.Millisecond) // somewhere in its work
				killed.Kill9()
				killed = i.startRelay(t, o, "relay-2-"+topic)
			}
		}
		o.isEmpty(t)
		took := time.Since(began)
		t.Logf("%d rows in %s: %.0f rows/s", total, took, float64(total)/took.Seconds())
		for n := range min(jobs, 300) {
			path := fmt.Sprintf("/v1/topics/%s/jobs/j-%d", topic, n)
			if n%3 == 0 {
				i.MustDo(t, http.StatusNotFound, http.MethodGet, path, nil)
				continue
			}
			job := i.MustGet(t, topic, fmt.Sprintf("j-%d", n))
			if string(job.Body) != `"new"` || job.DueAt.UnixMilli() != due+int64(n) {
				t.Errorf("job %d has the body %s and is due at %s", n, job.Body, job.DueAt)
			}
		}
	})
}

// A row that is refused is listed, reported to Wakecall and an alert, until it is dropped; the rows behind it wait.
func TestRelayShowsRowsThatAreSetAside(t *testing.T) {
	t.Parallel()
	i := start(t, harness.Options{})
	o := newSQLiteOutbox(t)
	script, err := ddl.Of(ddl.SQLite, ddl.Table)
	if err != nil {
		t.Fatal(err)
	}
	o.exec(t, ddl.Statements(script)...)
	o.exec(t, "INSERT INTO wakecall_outbox (op, topic, job_id) "+
		"VALUES ('push', 'nowhere', 'x'), ('delete', 'nowhere', 'x')")
	relay := i.startRelay(t, o, "relay", "--attempts", "1")
	harness.Eventually(t, soon, "the row to be listed", func() error {
		code, text := i.Run("relay", "list", "--dsn", o.dsn)
		if code != 1 || !strings.Contains(text, "nowhere") {
			return fmt.Errorf("code %d: %s", code, text)
		}
		return nil
	})
	ctx := t.Context()
	harness.Eventually(t, soon, "the relay to report it", func() error {
		text := string(i.Do(ctx, http.MethodGet, "/v1/relays", nil).Body)
		if !strings.Contains(text, `"set_aside":1`) || !strings.Contains(text, "shop.wakecall_outbox") {
			return fmt.Errorf("got %s", text)
		}
		return nil
	})
	harness.Eventually(t, soon, "the alert", func() error {
		text := string(i.Do(ctx, http.MethodGet, "/v1/alerts", nil).Body)
		if !strings.Contains(text, "relay_set_aside") {
			return fmt.Errorf("got %s", text)
		}
		return nil
	})
	if code, text := i.Run("relay", "drop", "1", "--dsn", o.dsn); code != 0 {
		t.Errorf("code %d: %s", code, text)
	}
	o.isEmpty(t)
	relay.Signal(15)
	relay.WaitExit()
	if text := i.Do(ctx, http.MethodGet, "/v1/relays", nil).Body; strings.Contains(string(text), "shop") {
		t.Errorf("the relay of an empty outbox did not withdraw its report: %s", text)
	}
}
