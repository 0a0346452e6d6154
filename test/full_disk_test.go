package test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/smtptest"
)

// TestTheJournalsDiskIsFull: no push is accepted without its line in the journal. Callbacks continue, and when there is
// space again, pushes are accepted without a restart.
func TestTheJournalsDiskIsFull(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	disk := harness.NewDisk(t, "16m")
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_JOURNAL_DIR": disk.Dir}})
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	for n := range 30 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint("before-", n), M{"delay": "2s"})
	}
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, soon, "pushes to be refused", func() error { // the last page of the file may have space
		answer := i.Push(ctx, topic, M{"body": strings.Repeat("x", 5000), "delay": "1h"})
		if answer.Status == http.StatusCreated {
			return fmt.Errorf("it was accepted")
		}
		if problem(t, answer); answer.Status != http.StatusServiceUnavailable ||
			answer.Header.Get("Retry-After") == "" {
			t.Fatalf("the answer is %s, want 503 with Retry-After", answer)
		}
		return nil
	})
	harness.Eventually(t, soon, "callbacks to continue", func() error { return ledger.AllCalled(i.endpoint) })
	db := i.registryFile(t)
	harness.Eventually(t, soon, "an alert with the file and the reason", func() error {
		var detail string
		if err := db.QueryRow(`SELECT causes FROM alerts WHERE kind = 'journal'`).Scan(&detail); err != nil {
			return err
		}
		if !strings.Contains(detail, disk.Dir) || !strings.Contains(detail, "no space left") {
			return errors.New(detail)
		}
		return nil
	})
	i.shows(t, "wakecall_journal_writable", 0)
	i.shows(t, "wakecall_journal_disk_free_bytes", 0)
	if output := i.succeeds(t, "ps"); !strings.Contains(output, "journal cannot be written") {
		t.Errorf("wakecall ps does not report it:\n%s", output)
	}
	unhealthy(t, i.Wakecall, "server: no request is accepted: ")
	if code, output := i.Run("check"); code == 0 || !strings.Contains(output, disk.Dir+" cannot be written") {
		t.Errorf("wakecall check: code %d\n%s", code, output)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, soon, "pushes to be accepted again", func() error {
		return harness.Equal("status", ledger.Push(ctx, i.API, topic, "after", nil).Status, http.StatusCreated)
	})
	waitHealthy(t, i.Wakecall)
	i.endpoint.WaitCalls(t, topic, 31)
}

// TestTheErrorFileCannotBeWritten: errors cannot be recorded, which every process notices when a shard goes down. An
// alert is sent, and pushes and callbacks continue, because they need only the other files. The alert ends by itself
// when the file can be written again.
func TestTheErrorFileCannotBeWritten(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	dir := t.TempDir()
	var inTheWay []string
	for _, day := range []time.Time{time.Now(), time.Now().Add(24 * time.Hour)} {
		name := filepath.Join(dir, "error-"+day.UTC().Format("20060102")+".jsonl")
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		inTheWay = append(inTheWay, name)
	}
	smtp := smtptest.Start(t)
	a, b := harness.StartRedis(t, harness.RedisOptions{}), harness.StartRedis(t, harness.RedisOptions{})
	opts := onRedis(a, b)
	opts.Env["WAKECALL_JOURNAL_DIR"] = dir
	i := start(t, opts)
	i.mailing(t, smtp, nil)
	i.WaitRole("redis-checker", 1)
	topic := i.topic(t, nil, nil)
	ledger := harness.NewLedger()
	b.Kill9()
	pushed := 0
	harness.Eventually(t, soon, "the server to have an error to record", func() error {
		pushed++
		answer := ledger.Push(ctx, i.API, topic, fmt.Sprint("meanwhile-", pushed), nil)
		if answer.Status != http.StatusCreated { // the other shard has not been compared yet
			return errors.New(answer.String())
		}
		return saysInALine(i.Log(0), "server", "the journal cannot be written", "error-")
	})
	for n := range 20 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint("then-", n), nil)
	}
	i.MustDo(t, http.StatusOK, http.MethodGet, "/readyz", nil)
	waitHealthy(t, i.Wakecall)
	harness.Eventually(t, soon, "callbacks to continue", func() error { return ledger.AllCalled(i.endpoint) })
	waitMail(t, smtp, "ops@test.example", "the journal cannot be written", "error-")
	for _, name := range inTheWay {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	harness.Eventually(t, soon, "the server to write it again", func() error {
		ledger.MustPush(t, i.API, topic, fmt.Sprint("after-", time.Now().UnixNano()), nil)
		return saysInALine(i.Log(0), "server", "the journal can be written again")
	})
	b.Restart()
	// Not the mail: while other alerts last, like those of slow shards on a busy machine, an end waits for the digest.
	db := i.registryFile(t)
	harness.Eventually(t, soon, "the alert to be over", func() error {
		var open int
		err := db.QueryRow(`SELECT count(*) FROM alerts WHERE kind = 'journal' AND ended_at IS NULL`).Scan(&open)
		return cmp.Or(err, harness.Equal("open alerts", open, 0))
	})
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// saysInALine fails unless one line of a log has all the words.
func saysInALine(log string, words ...string) error {
	for line := range strings.Lines(log) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return nil
		}
	}
	return fmt.Errorf("no line has %q", words)
}

// TestRedisHasNoDiskLeft: a Redis that cannot write its file refuses every change. Pushes are answered 503, no job is
// lost, and outcomes are settled when there is space again: no job is called twice.
func TestRedisHasNoDiskLeft(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	disk := harness.NewDisk(t, "32m")
	r := harness.StartRedis(t, harness.RedisOptions{Args: []string{"--dir", disk.Dir}})
	i := start(t, onRedis(r))
	gate := harness.NewGate()
	topic := i.topic(t, gate.Hold, M{"ttr": "60s"})
	ledger := harness.NewLedger()
	for n := range 10 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint("running-", n), nil)
	}
	i.endpoint.WaitCalls(t, topic, 10)
	for n := range 10 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint("delayed-", n), M{"delay": "1s"})
	}
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, soon, "Redis to refuse writes, and pushes to be refused", func() error {
		answer := ledger.Push(ctx, i.API, topic, fmt.Sprint("refused-", time.Now().UnixNano()),
			M{"delay": "100ms", "body": strings.Repeat("x", 5000)})
		if answer.Status == http.StatusCreated {
			return fmt.Errorf("one was accepted")
		}
		if answer.Status != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
			t.Fatalf("the answer is %s, want 503 with Retry-After", answer)
		}
		return nil
	})
	gate.Open() // their outcomes cannot be settled
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, soon, "all calls", func() error { return ledger.AllCalled(i.endpoint) })
	ledger.Verdict(t, i.API, i.endpoint, 0)
}
