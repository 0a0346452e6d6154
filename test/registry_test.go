package test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
)

func TestTheRegistrysServerStopsAndComesBackUnderLoad(t *testing.T) {
	needProcesses(t)
	dbtest.OnServers(t, func(t *testing.T, db dbtest.Stoppable) {
		opts := unhurried()
		opts.Env["WAKECALL_REGISTRY_DSN"] = db.DSN("wakecall")
		i := start(t, opts)
		topic := i.topic(t, nil, nil)
		ledger := harness.NewLedger()
		load := harness.StartLoad(t, i.Quick(), ledger,
			harness.LoadOptions{Topic: topic, Fields: M{"delay": "100ms"}, PushFailed: noFailure(t)})
		ledger.WaitAcknowledged(t, 50)

		db.Kill9()
		ledger.WaitAcknowledged(t, 100)
		i.refusesEdits(t, topic)
		db.Start()
		i.takesEdits(t, topic)

		db.Pause() // worse than dead: it accepts connections and never answers
		ledger.WaitAcknowledged(t, 100)
		i.refusesEdits(t, topic)
		db.Resume()
		i.takesEdits(t, topic)

		load.Stop()
		ledger.Verdict(t, i.API, i.endpoint, 0)
	})
}

// refusesEdits checks that a change of the registry is refused in time and clearly while the database is unavailable.
func (i *installation) refusesEdits(t *testing.T, topic string) {
	t.Helper()
	began := time.Now()
	answer := i.Do(ctx, http.MethodPut, "/v1/topics/"+topic,
		M{"callback_url": i.endpoint.URL("/" + topic), "title": "changed"})
	if problem(t, answer); answer.Status != http.StatusServiceUnavailable {
		t.Errorf("an edit without the database: %s, want 503", answer)
	}
	if took := time.Since(began); took > busy {
		t.Errorf("the refusal took %s", took)
	}
	i.MustDo(t, http.StatusOK, http.MethodGet, "/v1/topics/"+topic, nil)
}

func (i *installation) takesEdits(t *testing.T, topic string) {
	t.Helper()
	harness.Eventually(t, soon, "an edit to be accepted", func() error {
		answer := i.Do(ctx, http.MethodPut, "/v1/topics/"+topic,
			M{"callback_url": i.endpoint.URL("/" + topic), "title": "changed"})
		if answer.Err != nil {
			return answer.Err
		}
		return harness.Equal("status", answer.Status, http.StatusOK)
	})
}

func TestRestartWithoutTheRegistrysServer(t *testing.T) {
	needProcesses(t)
	dbtest.OnServers(t, func(t *testing.T, db dbtest.Stoppable) {
		opts := unhurried()
		opts.Env["WAKECALL_REGISTRY_DSN"] = db.DSN("wakecall")
		i := start(t, opts)
		topic := i.topic(t, nil, nil)
		ledger := harness.NewLedger()
		ledger.MustPush(t, i.API, topic, "before", M{"delay": "1s"})
		db.Kill9()
		i.Kill9()
		i.Up()
		i.WaitReady()
		ledger.MustPush(t, i.API, topic, "without", nil)
		i.endpoint.WaitCalls(t, topic, 2)
		db.Start()
		i.takesEdits(t, topic)
		ledger.Verdict(t, i.API, i.endpoint, 1)
	})
}

// shared starts a Redis, and returns it with the options of hosts that share it and a database.
func shared(t *testing.T, db dbtest.Stoppable) (*harness.Redis, harness.Options) {
	t.Helper()
	r := harness.StartRedis(t, harness.RedisOptions{})
	opts := onRedis(r)
	opts.Env["WAKECALL_REGISTRY_DSN"] = db.DSN("wakecall")
	return r, opts
}

// onServerOfTheDay is dbtest.OnServers for long tests, one server after the other. A sample has the one whose turn it is
// today, so that a failed test that is run again has the same server.
func onServerOfTheDay(t *testing.T, test func(t *testing.T, db dbtest.Stoppable)) {
	t.Helper()
	names := []string{"mariadb", "postgres"}
	today := time.Now().UTC().YearDay() % len(names)
	for _, name := range harness.Sample(names, names[today:today+1]) {
		t.Run(name, func(t *testing.T) { test(t, dbtest.Servers[name](t)) })
	}
}

// TestTwoHostsShareAnInstallation: two masters share a database and a Redis; each has its own data directory.
func TestTwoHostsShareAnInstallation(t *testing.T) {
	needProcesses(t)
	dbtest.OnServers(t, func(t *testing.T, db dbtest.Stoppable) {
		_, opts := shared(t, db)
		one, two := harness.New(t, opts), harness.New(t, opts)
		one.Up() // both at once: one of them migrates
		two.Up()
		i := &installation{one, harness.StartEndpoint(t)}
		harness.Eventually(t, soon, "both to be ready", func() error {
			if err := one.Readyz(); err != nil {
				return err
			}
			return two.Readyz()
		})
		harness.ShareToken(t, one, two)

		topic := i.topic(t, nil, nil)
		harness.Eventually(t, soon, "the other host to know the topic", func() error {
			return harness.Equal("status", two.Do(ctx, http.MethodGet, "/v1/topics/"+topic, nil).Status, http.StatusOK)
		})
		ledger := harness.NewLedger()
		first := harness.StartLoad(t, one.Quick(), ledger,
			harness.LoadOptions{Topic: topic, Fields: M{"delay": "100ms"}, PushFailed: noFailure(t)})
		ledger.WaitAcknowledged(t, 100)
		first.Stop()
		second := harness.StartLoad(t, two.Quick(), ledger,
			harness.LoadOptions{Topic: topic, Fields: M{"delay": "100ms"}, PushFailed: noFailure(t)})
		ledger.WaitAcknowledged(t, 50)
		tellsNoLoss(t, one)
		tellsNoLoss(t, two)
		one.Kill9()
		ledger.WaitAcknowledged(t, 50)
		second.Stop()
		ledger.Verdict(t, two.API, i.endpoint, inFlight)
	})
}

// TestInstallationsOnOneMachineReportApart: what one of them finds does not end what the other one finds.
func TestInstallationsOnOneMachineReportApart(t *testing.T) {
	needProcesses(t)
	dbtest.OnServers(t, func(t *testing.T, db dbtest.Stoppable) {
		r, opts := shared(t, db)
		start(t, opts)
		two := harness.New(t, opts)
		two.Up()
		harness.Eventually(t, soon, "the second to be ready", two.Readyz)
		r.Kill9()
		reports := db.Connect(t, "wakecall")
		harness.Eventually(t, soon, "both to report that the shard is down", func() error {
			var n int
			if err := reports.QueryRow(`SELECT count(*) FROM alert_reports`).Scan(&n); err != nil {
				return err
			}
			return harness.Equal("reports", n, 2)
		})
	})
}

// TestAnOldRegistryKillsNoJob: when an old backup of the registry was restored, the jobs of a topic that it lacks wait,
// an alert reports that, and they are called when the topic is registered again.
func TestAnOldRegistryKillsNoJob(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	for n := range 20 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint("job-", n), M{"delay": "15s"})
	}
	i.MustPutTopic(t, "a.*", M{"delivery": "pull"})
	i.MustPush(t, "a.member", M{"id": "waits", "body": 1})
	i.Signal(syscall.SIGTERM)
	i.WaitExit()
	db := i.loseTopic(t, topic)
	i.Up()
	harness.Eventually(t, soon, "an alert about the topic, and none about that of a namespace", func() error {
		var topics string
		const query = `SELECT coalesce(group_concat(topic), '') FROM alerts WHERE kind = 'topic_unknown'`
		if err := db.QueryRow(query).Scan(&topics); err != nil {
			return err
		}
		return harness.Equal("topics", topics, topic)
	})
	harness.Eventually(t, soon, "a dispatcher to reserve a job", func() error {
		if !strings.Contains(i.Log(0), "its deletion is not in the audit trail") {
			return errors.New("the log does not report it")
		}
		return nil
	})
	i.MustPutTopic(t, topic, M{"callback_url": i.endpoint.URL("/" + topic)})
	if dead := i.MustStats(t, topic).Dead; dead > 0 {
		t.Fatalf("%d jobs are dead", dead)
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// loseTopic removes a topic from the registry, as when an old backup without it was restored.
func (i *installation) loseTopic(t *testing.T, topic string) *sql.DB {
	t.Helper()
	db := i.registryFile(t)
	for _, restore := range []string{
		`DELETE FROM topics WHERE name = '` + topic + `'`, `DELETE FROM audit`, `DELETE FROM change_log`,
	} {
		if _, err := db.Exec(restore); err != nil {
			t.Fatal(err)
		}
	}
	return db
}
