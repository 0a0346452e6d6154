package test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/smtptest"
)

// behindProxy configures an installation for a Redis behind a proxy.
func behindProxy(t *testing.T) (harness.Options, *harness.Proxy) {
	t.Helper()
	p := harness.StartProxy(t, harness.StartRedis(t, harness.RedisOptions{}).Addr())
	return harness.Options{Env: map[string]string{"WAKECALL_REDIS_NODES": "redis://" + p.Addr() + "/0"}}, p
}

// TestNoWakeUpArrives: a wake-up is a hint. Without any, every call starts within the second of the fallback poll.
func TestNoWakeUpArrives(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	opts, p := behindProxy(t)
	i := start(t, opts)
	topic := i.topic(t, nil, nil)
	lost := make(chan struct{}, 1000)
	p.Set(harness.Trouble{Withhold: func(answer []byte) bool {
		if !bytes.Contains(answer, []byte("message\r\n")) {
			return false
		}
		select {
		case lost <- struct{}{}:
		default:
		}
		return true
	}})
	ledger := harness.NewLedger()
	for n, delay := range []string{"0s", "300ms", "0s", "700ms", "0s", "1200ms"} {
		j := ledger.MustPush(t, i.API, topic, fmt.Sprint(n), M{"delay": delay})
		call := i.endpoint.WaitCalls(t, topic, n+1)[n]
		if late := call.At.Sub(j.DueAt); late > time.Second+busy {
			t.Errorf("job %d was called %s after its due time", n, late)
		}
	}
	if len(lost) == 0 {
		t.Error("no wake-up was sent, so this test proves nothing")
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// TestAnswersOfRedisGetLost: a request that was executed but not answered takes effect once. No job is called twice, no
// attempt is counted twice, no push is stored twice.
func TestAnswersOfRedisGetLost(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	opts, p := behindProxy(t)
	i := start(t, opts)
	topic := i.topic(t, harness.FirstCalls(1, harness.Status(400), harness.Status(200)), M{"retry": []string{"100ms"}})
	p.Set(harness.Trouble{Lose: 1.0 / 7})
	ledger := harness.NewLedger()
	for n := range 60 {
		harness.Eventually(t, soon, "the push", func() error { // retried after a 503, as clients do
			if a := ledger.Push(ctx, i.Quick(), topic, fmt.Sprint(n), M{"delay": "50ms"}); a.Err != nil ||
				a.Status >= 500 {
				return errors.New(a.String())
			}
			return nil
		})
	}
	harness.Eventually(t, soon, "all calls", func() error { return ledger.AllCalled(i.endpoint) })
	p.Heal()
	ledger.Verdict(t, i.API, i.endpoint, 0)
	calls := map[string][]int{}
	for _, c := range i.endpoint.Calls(topic) {
		calls[c.ID] = append(calls[c.ID], c.Attempt)
	}
	for n := range 60 {
		if got := calls[fmt.Sprint(n)]; len(got) != 2 || got[0] != 1 || got[1] != 2 {
			t.Errorf("job %d had the attempts %v, want 1 and 2", n, got)
		}
	}
}

// TestTheClockOfRedisSteps: due times are compared with Redis's clock alone. The clock goes back an hour: jobs that
// were due then are late but not lost, and new jobs are called on time. It goes forward again: no job is called before
// its due time.
func TestTheClockOfRedisSteps(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	clock := newClock(t)
	r := harness.StartRedis(t, harness.RedisOptions{Env: clock.env()})
	i := start(t, onRedis(r))
	topic := i.topic(t, nil, nil)
	push := func(id, delay string) { i.MustPush(t, topic, M{"id": id, "body": 1, "delay": delay}) }
	called := func(id string) error {
		if len(i.endpoint.CallsOf(topic, id)) == 0 {
			return fmt.Errorf("%s was not called", id)
		}
		return nil
	}
	push("of-the-old-clock", "2s")
	clock.Set(-time.Hour)
	push("of-the-new-clock", "500ms")
	harness.Eventually(t, soon, "a new job to be called", func() error { return called("of-the-new-clock") })
	harness.Stays(t, 2500*time.Millisecond, "the job that is now due in an hour", func() error {
		if called("of-the-old-clock") == nil {
			return fmt.Errorf("it was called")
		}
		return nil
	})
	harness.Eventually(t, soon, "the step to be reported", func() error {
		if log := i.Log(0); !strings.Contains(log, "finding=stepped") && !strings.Contains(log, "finding=clock") {
			return fmt.Errorf("the log has no finding about the clock")
		}
		return nil
	})
	push("in-half-an-hour", "30m")
	push("in-two-hours", "2h")
	clock.Set(0)
	harness.Eventually(t, soon, "the jobs that are due by the new clock to be called", func() error {
		if err := called("of-the-old-clock"); err != nil {
			return err
		}
		return called("in-half-an-hour")
	})
	push("after", "300ms")
	harness.Eventually(t, soon, "a new job to be called", func() error { return called("after") })
	if called("in-two-hours") == nil {
		t.Error("the job that is due in two hours was called")
	}
	if n := len(i.endpoint.Calls(topic)); n != 4 {
		t.Errorf("there were %d calls of 4 jobs", n)
	}
}

// TestRedisAndHostDisagreeOnTheTime: Redis's clock is ten minutes off those of the hosts. Delays are exact, and lost
// jobs are recovered.
func TestRedisAndHostDisagreeOnTheTime(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			clock := newClock(t)
			clock.Set(ahead)
			r := harness.StartRedis(t, harness.RedisOptions{Env: clock.env()})
			opts := onRedis(r)
			opts.Env["WAKECALL_SPOOL"] = "on"
			i := start(t, opts)
			topic := i.topic(t, nil, nil)
			sent := map[string]time.Time{}
			push := func(id string) {
				sent[id] = time.Now()
				if a := i.Push(ctx, topic, M{"id": id, "body": 1, "delay": "2s"}); a.Err != nil || a.Status >= 300 {
					t.Fatalf("push: %s", a)
				}
			}
			push("waits")
			i.endpoint.WaitCalls(t, topic, 1)
			push("lost")
			r.Lose()
			harness.Eventually(t, soon, "a push to be spooled", func() error {
				id := fmt.Sprint("spooled-", len(sent))
				sent[id] = time.Now()
				a := i.Push(ctx, topic, M{"id": id, "body": 1, "delay": "2s"})
				return harness.Equal("status", a.Status, http.StatusAccepted)
			})
			r.Restart()
			var calls []harness.Call
			harness.Eventually(t, soon, "lost and spooled jobs to be called", func() error {
				calls = i.endpoint.Calls(topic)
				seen := ""
				for _, c := range calls {
					seen += c.ID + " "
				}
				if !strings.Contains(seen, "lost") || !strings.Contains(seen, "spooled") {
					return fmt.Errorf("the called jobs are %s", seen)
				}
				return nil
			})
			for _, c := range calls {
				if after := c.At.Sub(sent[c.ID]); after < 2*time.Second {
					t.Errorf("%s was called %s after its push, with a delay of 2s", c.ID, after)
				}
			}
		})
	}
}

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
	if output := i.succeeds(t, "ps"); !strings.Contains(output, "journal cannot be written") {
		t.Errorf("wakecall ps does not report it:\n%s", output)
	}
	if code, output := i.Run("check"); code == 0 || !strings.Contains(output, disk.Dir+" cannot be written") {
		t.Errorf("wakecall check: code %d\n%s", code, output)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, soon, "pushes to be accepted again", func() error {
		return harness.Equal("status", ledger.Push(ctx, i.API, topic, "after", nil).Status, http.StatusCreated)
	})
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

// TestADispatcherWithoutDescriptors counts no attempts: the endpoint cannot be blamed for its host's shortage. It logs
// the shortage, and calls the jobs when it is over.
func TestADispatcherWithoutDescriptors(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{Env: map[string]string{"WAKECALL_DISPATCHERS": "1"}})
	ledger := harness.NewLedger()
	topic := i.topic(t, harness.Status(200, "Connection", "close"), M{"retry": []string{"100ms"}, "max_attempts": 2})
	ledger.MustPush(t, i.API, topic, "first", nil)
	i.endpoint.WaitCalls(t, topic, 1)
	pid := i.Role("dispatcher")[0]
	restore := limitFiles(t, pid, 3) // it keeps what is open, and gets no more
	for n := range 20 {
		ledger.MustPush(t, i.API, topic, fmt.Sprint(n), nil)
	}
	harness.Eventually(t, soon, "the shortage in the log", func() error {
		if !strings.Contains(i.Log(1<<20), "cannot make callbacks") {
			return errors.New("it is not there")
		}
		return nil
	})
	restore()
	harness.Eventually(t, soon, "all calls", func() error { return ledger.AllCalled(i.endpoint) })
	for _, c := range i.endpoint.Calls(topic) {
		if c.Attempt != 1 {
			t.Errorf("job %s was called as attempt %d", c.ID, c.Attempt)
		}
	}
	ledger.Verdict(t, i.API, i.endpoint, 0)
}

// waitForFiles waits until a process has opened no more files for two seconds, and returns how many it has.
func waitForFiles(t *testing.T, pid int) (files int) {
	t.Helper()
	since := time.Now()
	harness.Eventually(t, soon, "the process to have opened its files", func() error {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err == nil && len(open) != files {
			files, since = len(open), time.Now()
		}
		if time.Since(since) < 2*time.Second {
			return errors.Join(err, errors.New("it is still opening files"))
		}
		return err
	})
	return files
}

// limitFiles sets the limit of a process's descriptors until restore is called.
func limitFiles(t *testing.T, pid, most int) (restore func()) {
	t.Helper()
	set := func(to *unix.Rlimit) (was unix.Rlimit) {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, to, &was); err != nil {
			t.Fatal(err)
		}
		return was
	}
	was := set(nil)
	set(&unix.Rlimit{Cur: uint64(most), Max: was.Max})
	return func() { set(&was) }
}

// TestAServerWithoutDescriptors waits until clients disconnect: it does not end, does not spin, and its existing
// connections keep working.
func TestAServerWithoutDescriptors(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	i := start(t, harness.Options{})
	topic := i.topic(t, nil, nil)
	api := i.Quick()
	ledger := harness.NewLedger()
	ledger.MustPush(t, api, topic, "first", nil) // its connection stays open
	pid := i.Role("server")[0]
	limitFiles(t, pid, waitForFiles(t, pid)+4)
	var clients []io.Closer
	for range 200 {
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(i.Base, "http://"), time.Second)
		if err != nil {
			break // the listening queue is full
		}
		clients = append(clients, c)
	}
	before := cpuTime(t, pid)
	began := time.Now()
	pushes := 0
	tick := time.NewTicker(50 * time.Millisecond) // the measurement needs a server that has little to do
	defer tick.Stop()
	for time.Since(began) < 2*time.Second {
		ledger.MustPush(t, api, topic, fmt.Sprint(pushes), nil)
		pushes++
		<-tick.C
	}
	if share := float64(cpuTime(t, pid)-before) / float64(time.Since(began)); share > 0.3 {
		t.Errorf("the server used %.0f%% of a CPU while it could accept no connection", 100*share)
	}
	for _, c := range clients {
		_ = c.Close()
	}
	harness.Eventually(t, soon, "new clients to be served", func() error {
		return i.API.WithoutKeepAlive().Do(ctx, http.MethodGet, "/healthz", nil).Err
	})
	if i.Role("server")[0] != pid {
		t.Error("the server has ended")
	}
	ledger.Verdict(t, api, i.endpoint, 0)
}

// cpuTime returns the CPU time of a process so far.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // user and system
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// TestTheAnswerToADeleteOrAChangeGetsLost: "there is no such job" is the answer only for jobs that did not exist, and
// not for one that the request itself removed, or ran, before its answer was lost.
func TestTheAnswerToADeleteOrAChangeGetsLost(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	opts, p := behindProxy(t)
	i := start(t, opts)
	topic := i.topic(t, harness.Slow(200*time.Millisecond), nil)
	const jobs = 40
	for n := range 2 * jobs {
		i.MustPush(t, topic, M{"id": fmt.Sprint(n), "body": 1, "delay": "1h"})
	}
	p.Set(harness.Trouble{Lose: 1.0 / 3})
	api, done := i.Quick(), 0
	for n := range jobs {
		answer := api.Do(ctx, http.MethodDelete, harness.JobPath(topic, fmt.Sprint(n)), nil)
		switch answer.Status {
		case http.StatusNoContent:
			done++
		case http.StatusServiceUnavailable:
		default:
			t.Errorf("the delete of an existing job was answered %s", answer)
		}
		answer = api.Do(ctx, http.MethodPost, harness.JobPath(topic, fmt.Sprint(jobs+n))+"/run", nil)
		if answer.Status != http.StatusAccepted && answer.Status != http.StatusServiceUnavailable {
			t.Errorf("the run of an existing job was answered %s", answer)
		}
	}
	p.Heal()
	if done == 0 {
		t.Error("no delete was answered 204")
	}
}
