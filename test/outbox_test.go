package test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	timers "github.com/wakecall/wakecall/client/outbox"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// shop is an installation with a database, a workload on it, and two relays.
type shop struct {
	*installation
	t      *testing.T
	db     *shopDB
	api    *harness.Proxy // between the relays and the server
	relays [2]*relay
	*workload
}

// openShop starts all of it.
func openShop(t *testing.T, kind timers.Dialect) *shop {
	t.Helper()
	s := &shop{t: t, installation: start(t, unhurried()), db: startShopDB(t, kind)}
	s.shopTopics(t)
	s.api = harness.StartProxy(t, strings.TrimPrefix(s.Base, "http://"))
	token := s.pushToken(t, "shop.*")
	for n := range s.relays {
		s.relays[n] = startRelay(t, s.db, "http://"+s.api.Addr(), token)
	}
	s.workload = newWorkload(t, s.db, harness.Sample(300, 40))
	s.workload.start(t, 4, 10*time.Millisecond)
	s.goesOn(20)
	return s
}

func (s *shop) goesOn(n int) { s.t.Helper(); s.waitCarried(s.t, s.installation, n) }

// TestOutbox: through kills of the relays, lost statements, and an absence of the database and of Wakecall, the final
// state of each job is that of its last row. No row is lost or carried twice, a change never comes before its push, and
// a cancellation never before the pushes of its group.
func TestOutbox(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for _, kind := range outboxDialects {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := openShop(t, kind)
			s.relaysKilled()
			s.answersLost()
			s.serverAway()
			if s.db.server != nil {
				s.statementsCut()
				s.databaseKilled()
			}
			if s.db.server == nil || harness.Long() { // the same with every database
				s.hangs()
			}
			s.verdict(t, s.installation)
		})
	}
}

// relaysKilled kills one of the relays at some point of its work.
func (s *shop) relaysKilled() {
	s.t.Helper()
	for n := range harness.Sample(100, 4) {
		time.Sleep(time.Duration(n%17) * 7 * time.Millisecond)
		s.relays[n%2].again()
		s.goesOn(1)
	}
	s.goesOn(20)
}

// answersLost loses the server's answers: the relays must repeat what was done.
func (s *shop) answersLost() {
	s.t.Helper()
	for range harness.Sample(20, 2) {
		s.api.Set(harness.Trouble{Swallow: true})
		time.Sleep(300 * time.Millisecond)
		s.api.Heal()
		s.goesOn(20)
	}
	s.api.Set(harness.Trouble{Lose: 0.1})
	s.goesOn(100)
	s.api.Heal()
}

// serverAway kills the server, and then makes it unreachable for a while.
func (s *shop) serverAway() {
	s.t.Helper()
	s.KillRole("server")
	s.goesOn(20)
	s.api.Refuse()
	s.api.Set(harness.Trouble{Cut: true})
	time.Sleep(harness.Sample(time.Minute, time.Second))
	s.api.Heal()
	must(s.t, s.api.Accept())
	s.goesOn(20)
}

// hangs stops the server, and Redis, for longer than a relay waits for an answer: what it repeats may be done twice.
func (s *shop) hangs() {
	s.t.Helper()
	for _, role := range harness.Sample([]string{"server", "redis", "server", "redis"}, []string{"server"}) {
		pid := s.WaitRole(role, 1)[0]
		process.Pause(s.t, pid)
		time.Sleep(4 * time.Second)
		must(s.t, process.Signal(syscall.SIGCONT, pid))
		s.goesOn(20)
	}
}

// statementsCut cuts the relays' connections to the database before, and after, each of their statements in turn.
func (s *shop) statementsCut() {
	s.t.Helper()
	for n := range harness.Sample(60, 6) {
		for _, cut := range []func(func([]byte) bool) <-chan struct{}{s.db.relays.CutRequest, s.db.relays.CutReply} {
			var seen atomic.Int64
			done := cut(func(request []byte) bool { return len(request) > 0 && seen.Add(1) == int64(n+1) })
			select {
			case <-done:
			case <-time.After(soon):
				s.t.Fatal("the relays make no statements")
			}
		}
		s.goesOn(1)
	}
	s.goesOn(20)
}

// databaseKilled kills the database and starts it again.
func (s *shop) databaseKilled() {
	s.t.Helper()
	for range harness.Sample(5, 1) {
		s.db.server.Kill9()
		s.db.server.Start()
		s.goesOn(20)
	}
}

// TestOutboxStandbyPromoted: when a standby of PostgreSQL takes over, nothing that was committed is lost, if it was
// committed on both.
func TestOutboxStandbyPromoted(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	s := openShop(t, timers.PostgreSQL)
	standby := s.db.postgres.Standby(t)
	s.db.run(t, "ALTER SYSTEM SET synchronous_standby_names = '*'",
		"ALTER SYSTEM SET synchronous_commit = 'remote_apply'", "SELECT pg_reload_conf()")
	harness.Eventually(t, soon, "commits to wait for the standby", func() error {
		var commit, state string
		err := s.db.QueryRow("SELECT current_setting('synchronous_commit'), "+
			"(SELECT sync_state FROM pg_stat_replication)").Scan(&commit, &state)
		if err != nil {
			return err
		}
		return harness.Equal("state", commit+" "+state, "remote_apply sync")
	})
	s.goesOn(20)
	s.db.postgres.Kill9()
	standby.Promote()
	for _, p := range []*harness.Proxy{s.db.services, s.db.relays} {
		p.SetTarget(standby.Addr())
	}
	s.goesOn(20)
	s.verdict(t, s.installation)
}

// TestOutboxTouchesOnlyItsTopics: a row for another topic is refused, and set aside.
func TestOutboxTouchesOnlyItsTopics(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	i.shopTopics(t)
	i.put(t, "other.topic", nil, nil)
	i.MustPush(t, "other.topic", M{"id": "theirs", "body": 1, "delay": "24h", "group": "shared"})
	i.MustPush(t, firstTopic, M{"id": "ours", "body": 1, "delay": "24h", "group": "shared"})
	db := startShopDB(t, timers.SQLite)
	startRelay(t, db, i.Base, i.pushToken(t, "shop.*"), "--attempts", "1")
	table := timers.Table{Dialect: timers.SQLite}
	theirs := timers.Job{Topic: "other.topic", ID: "theirs"}
	for _, err := range []error{
		table.Push(ctx, db, client.Push{Topic: "other.topic", ID: "new", Body: []byte("1")}),
		table.Change(ctx, db, theirs, client.Change{Priority: client.High}),
		table.Delete(ctx, db, theirs),
		table.CancelGroup(ctx, db, "shared", 0),
	} {
		must(t, err)
	}
	harness.Eventually(t, soon, "the group's job of our topic to be deleted", func() error {
		answer := i.Do(ctx, http.MethodGet, harness.JobPath(firstTopic, "ours"), nil)
		return harness.Equal("status", answer.Status, http.StatusNotFound)
	})
	harness.Eventually(t, soon, "the rows for the other topic to be set aside", func() error {
		var refused int
		err := db.QueryRow("SELECT COUNT(*) FROM wakecall_outbox WHERE state = 'refused'").Scan(&refused)
		if err != nil {
			return err
		}
		return harness.Equal("rows that were set aside", refused, 2) // the delete waits for the change
	})
	job := i.MustGet(t, "other.topic", "theirs")
	if job.Priority != client.Normal || job.State != client.Delayed {
		t.Errorf("the other topic's job is %+v", job)
	}
	must(t, harness.Equal("calls of the other topic", len(i.endpoint.Calls("other.topic")), 0))
}

// TestOutboxPoison: a row that is refused is set aside with its error, and shown. Later rows of its key wait until it
// is retried or dropped; rows of other keys go on.
func TestOutboxPoison(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	i.shopTopics(t)
	db, table := startShopDB(t, timers.SQLite), timers.Table{Dialect: timers.SQLite}
	token := i.pushToken(t, "shop.*", "late.*")
	startRelay(t, db, i.Base, token, "--attempts", "2")
	push := func(topic, id, group string) {
		t.Helper()
		must(t, table.Push(ctx, db, client.Push{
			Topic: topic, ID: id, Group: group, Body: []byte(`"b"`), Delay: client.After(far),
		}))
	}
	outboxCommand := func(code int, args ...string) string {
		t.Helper()
		cmd := relayCommand(t, db, i.Base, token)
		cmd.Args = append([]string{cmd.Args[0], "relay"}, args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code {
			t.Fatalf("wakecall relay %v: %v, want code %d\n%s", args, err, code, out)
		}
		return string(out)
	}
	push("late.topic", "one", "order-1") // row 1: there is no such topic yet
	push(firstTopic, "two", "order-1")
	push("late.other", "three", "order-3") // row 3
	push(firstTopic, "four", "order-3")
	push(firstTopic, "five", "order-5")
	harness.Eventually(t, soon, "two rows to be set aside", func() error {
		var n int
		err := db.QueryRow("SELECT COUNT(*) FROM wakecall_outbox WHERE state = 'refused'").Scan(&n)
		return errors.Join(err, harness.Equal("rows", n, 2))
	})
	list := outboxCommand(1, "list")
	for _, want := range []string{"late.topic", "late.other", "order-1", "order-3"} {
		if !strings.Contains(list, want) {
			t.Errorf("relay list does not show %s:\n%s", want, list)
		}
	}
	i.waitState(t, firstTopic, "five", client.Delayed)
	for _, id := range []string{"two", "four"} {
		i.MustDo(t, http.StatusNotFound, http.MethodGet, harness.JobPath(firstTopic, id), nil)
	}
	i.put(t, "late.topic", nil, nil)
	i.waitTaking(t, []string{"late.topic"}, i.API)
	outboxCommand(0, "retry", "1")
	outboxCommand(0, "drop", "3")
	db.waitEmpty(t)
	for id, topic := range map[string]string{"one": "late.topic", "two": firstTopic, "four": firstTopic} {
		must(t, harness.Equal("state of "+id, i.MustGet(t, topic, id).State, client.Delayed))
	}
	outboxCommand(0, "list")
}

// TestOutboxBacklog: two relays carry the rows of an hour's outage.
func TestOutboxBacklog(t *testing.T) {
	needProcesses(t) // alone: it loads the machine
	rows := harness.Sample(200_000, 4_000)
	for _, kind := range outboxDialects {
		t.Run(string(kind), func(t *testing.T) {
			i := start(t, unhurried())
			i.shopTopics(t)
			db := startShopDB(t, kind)
			insertBacklog(t, db, rows)
			token := i.pushToken(t, "shop.*")
			began := time.Now()
			for range 2 {
				startRelay(t, db, i.Base, token)
			}
			harness.Eventually(t, 10*time.Minute, "the outbox to be empty", func() error {
				n, err := db.rows()
				if err != nil {
					return err
				}
				return harness.Equal("rows", n, 0)
			})
			rate := float64(rows) / time.Since(began).Seconds()
			t.Logf("%d rows in %s: %.0f a second", rows, time.Since(began).Round(time.Millisecond), rate)
			stats := i.MustStats(t, firstTopic)
			must(t, harness.Equal("jobs", stats.Delayed, rows/4)) // the others were cancelled
			if harness.Long() && rate < 2000 {
				t.Errorf("%.0f rows a second; at least 2000 are promised", rate)
			}
			for n := 0; n < rows/4; n += max(1, rows/400) {
				job := i.MustGet(t, firstTopic, fmt.Sprint("kept-", n))
				must(t, harness.Equal("body", string(job.Body), fmt.Sprintf(`{"changed":%d}`, n)))
			}
		})
	}
}

// TestOutboxBacklogOfFewKeys: a backlog in which each key has hundreds of rows is carried without reading all of them
// for each claim.
func TestOutboxBacklogOfFewKeys(t *testing.T) {
	needProcesses(t) // alone: it loads the machine
	const keys = 100
	i := start(t, unhurried())
	i.shopTopics(t)
	db, table := startShopDB(t, timers.MySQL), timers.Table{Dialect: timers.MySQL}
	rows := harness.Sample(40_000, 4_000)
	for from := 0; from < rows; from += 1000 {
		tx, err := db.BeginTx(ctx, nil)
		must(t, err)
		for n := from; n < from+1000; n++ {
			must(t, table.Push(ctx, tx, client.Push{
				Topic: firstTopic, ID: fmt.Sprint("job-", n%keys), Group: fmt.Sprint("order-", n%keys),
				OnDuplicate: client.Replace, Body: fmt.Append(nil, n), Delay: client.After(far),
			}))
		}
		must(t, tx.Commit())
	}
	began, token := time.Now(), i.pushToken(t, "shop.*")
	for range 2 {
		startRelay(t, db, i.Base, token)
	}
	harness.Eventually(t, 10*time.Minute, "the outbox to be empty", func() error {
		n, err := db.rows()
		return errors.Join(err, harness.Equal("rows", n, 0))
	})
	t.Logf("%d rows in %s", rows, time.Since(began).Round(time.Millisecond))
	for n := range keys {
		job := i.MustGet(t, firstTopic, fmt.Sprint("job-", n))
		must(t, harness.Equal("body", string(job.Body), fmt.Sprint(rows-keys+n)))
	}
}

// insertBacklog inserts rows: a push and a change each of a quarter of them, a push and a cancellation each of another.
func insertBacklog(t *testing.T, db *shopDB, rows int) {
	t.Helper()
	table := timers.Table{Dialect: db.kind}
	for from := 0; from < rows/4; from += 1000 {
		tx, err := db.BeginTx(ctx, nil)
		must(t, err)
		for n := from; n < min(from+1000, rows/4); n++ {
			kept, group := timers.Job{Topic: firstTopic, ID: fmt.Sprint("kept-", n)}, fmt.Sprint("group-", n)
			body := fmt.Appendf(nil, `{"changed":%d}`, n)
			push := client.Push{Topic: firstTopic, Body: []byte("1"), Delay: client.After(far)}
			keep, cancel := push, push
			keep.ID, cancel.Group = kept.ID, group
			must(t, table.Push(ctx, tx, keep))
			must(t, table.Push(ctx, tx, cancel))
			must(t, table.Change(ctx, tx, kept, client.Change{Body: body}))
			must(t, table.CancelGroup(ctx, tx, group, 0))
		}
		must(t, tx.Commit())
	}
}
