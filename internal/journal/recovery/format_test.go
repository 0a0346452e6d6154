package recovery

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/queue"
)

// testdata/journal-N and spool-N are journals written by versions of Wakecall: two days, the first one packed, and one
// with pushes that no shard had accepted. They are written once (those of 0 as if in 2025), by WAKECALL_WRITE_FORMAT=N
// go test -run TestWriteJournalFormat, when a version writes lines that differ from earlier ones, and never again.

var (
	written = time.Date(2025, 10, 16, 12, 0, 0, 0, time.UTC) // the first of the two days
	farAway = time.Date(2200, 1, 2, 3, 4, 5, 678e6, time.UTC)
)

const fixtureTopic = "old.jobs"

// oldLines are lines of every kind, by day.
func oldLines() (requests [2][]journal.RequestLine, attempts [2][]journal.AttemptLine) {
	n := 0
	at := func() time.Time { n++; return written.Add(time.Duration(n) * time.Second) }
	created := map[string]time.Time{}
	push := func(id string, more func(*journal.RequestLine)) {
		created[id] = at()
		l := journal.RequestLine{TS: created[id], Op: journal.OpPush, Topic: fixtureTopic, ID: id, Shard: "a",
			DueAt:     created[id].Add(time.Hour),
			CreatedAt: created[id], Priority: "normal", Body: []byte(`{"id":"` + id + `"}`)}
		if more != nil {
			more(&l)
		}
		requests[0] = append(requests[0], l)
	}
	request := func(day int, op journal.Op, id string, more func(*journal.RequestLine)) {
		l := journal.RequestLine{TS: at().Add(time.Duration(day) * 24 * time.Hour), Op: op, Topic: fixtureTopic, ID: id,
			CreatedAt: created[id]}
		if more != nil {
			more(&l)
		}
		requests[day] = append(requests[day], l)
	}
	attempt := func(day int, id string, n int, outcome journal.Outcome, reason string) {
		ts := at().Add(time.Duration(day) * 24 * time.Hour)
		attempts[day] = append(attempts[day],
			journal.AttemptLine{TS: ts, Topic: fixtureTopic, ID: id, CreatedAt: created[id], N: n,
				StartedAt: ts.Add(-time.Second),
				Took:      1500 * time.Microsecond, Status: 500, Outcome: outcome, Reason: reason, Error: "no\xff", Shard: "a",
				Process: "dispatcher 1"})
	}
	for _, id := range []string{"replaced", "changed", "run", "deleted", "delivered", "dead", "expired", "redriven",
		"dropped", "moved", "retried", "snoozed", "lost"} {
		push(id, nil)
	}
	push("whole ünïcode", func(l *journal.RequestLine) {
		l.DueAt, l.Priority, l.TTR, l.MaxAttempts, l.ContentType, l.Body = farAway, "high", 1500*time.Millisecond, 7,
			"application/octet-stream", []byte{0, 0xff, '"', '\n'}
	})
	request(0, journal.OpReplace, "replaced", func(l *journal.RequestLine) {
		l.CreatedAt, l.Shard, l.DueAt, l.Priority, l.Body = l.TS, "a", l.TS, "low", []byte(`"replaced"`)
		created["replaced"] = l.TS
	})
	request(1, journal.OpChange, "changed", func(l *journal.RequestLine) {
		l.Shard, l.DueAt, l.Priority, l.Body = "a", farAway, "low", []byte(`"changed"`)
	})
	request(1, journal.OpRun, "run", func(l *journal.RequestLine) { l.Shard, l.DueAt, l.Priority = "a", l.TS, "normal" })
	request(1, journal.OpDelete, "deleted", func(l *journal.RequestLine) { l.Shard = "a" })
	attempt(1, "delivered", 1, journal.Done, "ok")
	attempt(0, "dead", 1, journal.Retry, "status")
	attempt(1, "dead", 2, journal.Dead, "attempts")
	attempt(1, "expired", 1, journal.Expired, "")
	attempt(0, "redriven", 1, journal.Dead, "gone")
	request(1, journal.OpRedrive, "redriven", func(l *journal.RequestLine) { l.CreatedAt = time.Time{} })
	attempt(0, "dropped", 1, journal.Dead, "gone")
	request(1, journal.OpDrop, "dropped", func(l *journal.RequestLine) { l.CreatedAt = time.Time{} })
	request(1, journal.OpMove, "moved", func(l *journal.RequestLine) {
		l.Shard, l.DueAt, l.Priority, l.Body = "b", farAway, "normal", []byte(`"moved"`)
	})
	attempt(1, "retried", 1, journal.Retry, "timeout")
	attempt(1, "snoozed", 1, journal.Snooze, "retry_if")
	attempt(1, "lost", 1, journal.Lost, "")
	push("cleared", func(l *journal.RequestLine) { l.Topic = "cleared.jobs" })
	request(1, journal.OpClear, "", func(l *journal.RequestLine) { l.Topic, l.Count = "cleared.jobs", 1 })
	return requests, attempts
}

func TestWriteJournalFormat(t *testing.T) {
	n := os.Getenv("WAKECALL_WRITE_FORMAT")
	if n == "" {
		t.Skip("writes a fixture only on request")
	}
	dir, spool := "testdata/journal-"+n, "testdata/spool-"+n
	if _, err := os.Stat(dir); err == nil {
		t.Fatalf("%s exists: the data of an older version cannot be written again", dir)
	}
	requests, attempts := oldLines()
	for day := range requests {
		j := openAt(t, dir, written.Add(time.Duration(day)*24*time.Hour))
		err := errors.Join(j.Requests(requests[day]), j.Attempts(attempts[day]),
			j.Error(journal.ErrorLine{Where: "test", Error: "none", Context: "topic=x"}), j.Close())
		if day == 1 { // packs the day before
			j = openAt(t, dir, written.Add(24*time.Hour))
			_, packing := j.Housekeep(t.Context())
			err = errors.Join(err, packing, j.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	j := openAt(t, spool, written)
	defer func() { _ = j.Close() }()
	pushes := []queue.Push{
		{Topic: fixtureTopic, ID: "delayed", Delay: 90 * time.Second, Body: []byte(`"delayed"`), Priority: queue.Normal},
		{Topic: fixtureTopic, ID: "due", DueAt: written, Body: []byte{0xff}, ContentType: "text/plain", TTR: time.Minute,
			MaxAttempts: 2, Priority: queue.Low},
		{Topic: fixtureTopic, ID: "twice", Body: []byte("1")},
		{Topic: fixtureTopic, ID: "twice", Body: []byte("2"), OnDuplicate: queue.Replace},
	}
	if _, err := NewSpool(spool, j).Keep(pushes); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(spool, "request-20251016.jsonl")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// a spool uses the real clock
	b = []byte(strings.ReplaceAll(string(b), time.Now().UTC().Format(`"2006-01-02T`), written.Format(`"2006-01-02T`)))
	err = errors.Join(os.WriteFile(file, b, 0o600),
		os.WriteFile(filepath.Join(spool, spoolName), []byte("1760572800000"), 0o600),
		os.Remove(filepath.Join(spool, ".spool.lock")), os.Remove(filepath.Join(dir, ".lock")))
	if err != nil {
		t.Fatal(err)
	}
}

func openAt(t *testing.T, dir string, now time.Time) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: dir, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// eachJournal runs a test on a copy of each fixture of a kind.
func eachJournal(t *testing.T, kind string, test func(t *testing.T, dir string)) {
	dirs, err := filepath.Glob("testdata/" + kind + "-*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there are no fixtures (%v)", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			mine := filepath.Join(t.TempDir(), "journal")
			if err := os.CopyFS(mine, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			test(t, mine)
		})
	}
}

// wantJob compares a job with its line.
func wantJob(t *testing.T, q *queue.Queue, id string, state queue.State, same func(*queue.Job) bool) {
	t.Helper()
	j, err := q.Get(t.Context(), fixtureTopic, id)
	if err != nil || j.State != state || same != nil && !same(j) {
		t.Errorf("%s: %+v, %v; want it %s", id, j, err, state)
	}
}

// TestStoredJournalsAreRead: a shard that lost everything gets its jobs back from the journal of an older version. An
// unknown kind of line, unknown members, and a torn line are skipped.
func TestStoredJournalsAreRead(t *testing.T) {
	eachJournal(t, "journal", func(t *testing.T, dir string) {
		addLines(t, filepath.Join(dir, "request-20251017.jsonl"),
			`{"ts":"2025-10-17T13:00:00.000Z","op":"teleport","topic":"old.jobs","id":"whole ünïcode","to":"mars"}`,
			`{"ts":"2025-10-17T13:00:00.001Z","op":"push","topic":"old.jobs","id":"with more","shard":"a","due_at":7258215845678,"created_at":1760706000001,"priority":"urgent","mood":"good","body":"1"}`,
			`{"ts":"2025-10-17T13:00:00.002Z","op":"push","topic":"old.jobs","id":"to`)
		url, _ := startRedis(t)
		h := newHost(t, url)
		h.adopt(t)
		report, err := Recover(t.Context(), Options{Shards: h.queue.Shards(), Dirs: []string{dir}})
		if err != nil || report.Torn != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		body := func(want string) func(*queue.Job) bool {
			return func(j *queue.Job) bool { return string(j.Body) == want }
		}
		wantJob(t, h.queue, "whole ünïcode", queue.Delayed, func(j *queue.Job) bool {
			return j.DueAt.Equal(farAway) && j.Priority == queue.High && j.TTR == 1500*time.Millisecond && j.MaxAttempts == 7 &&
				j.ContentType == "application/octet-stream" && string(j.Body) == "\x00\xff\"\n" && j.CreatedAt.Year() == 2025
		})
		wantJob(t, h.queue, "replaced", queue.Ready, body(`"replaced"`))
		wantJob(t, h.queue, "changed", queue.Delayed, func(j *queue.Job) bool {
			return j.DueAt.Equal(farAway) && j.Priority == queue.Low && string(j.Body) == `"changed"`
		})
		wantJob(t, h.queue, "moved", queue.Delayed, body(`"moved"`)) // as it was when it was moved
		for _, id := range []string{"run", "redriven", "retried", "snoozed", "lost"} {
			wantJob(t, h.queue, id, queue.Ready, body(`{"id":"`+id+`"}`))
		}
		wantJob(t, h.queue, "dead", queue.Dead, func(j *queue.Job) bool {
			return j.DeadReason == "attempts" && j.Attempts == 2 && len(j.History) == 1 && j.History[0].Error == "no\ufffd" &&
				j.History[0].TookMS == 1.5
		})
		wantJob(t, h.queue, "expired", queue.Dead, func(j *queue.Job) bool { return j.DeadReason == "expired" })
		wantJob(t, h.queue, "with more", queue.Delayed, func(j *queue.Job) bool { return j.Priority == queue.Normal })
		for _, id := range []string{"deleted", "delivered", "dropped"} {
			if j, err := h.queue.Get(t.Context(), fixtureTopic, id); !errors.Is(err, queue.ErrNotFound) {
				t.Errorf("%s: %+v, %v", id, j, err)
			}
		}
		if j, err := h.queue.Get(t.Context(), "cleared.jobs", "cleared"); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("cleared: %+v, %v", j, err)
		}
		if again, err := Recover(t.Context(), Options{Shards: h.queue.Shards(), Dirs: []string{dir}}); err != nil ||
			!again.Quiet() {
			t.Errorf("a second time: %+v, %v", again, err)
		}
	})
}

func addLines(t *testing.T, path string, lines ...string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strings.Join(lines, "\n"))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestStoredSpoolsAreDrained: pushes that an older version accepted while no shard was up reach the first one that is.
func TestStoredSpoolsAreDrained(t *testing.T) {
	eachJournal(t, "spool", func(t *testing.T, dir string) {
		if !spooled(dir) {
			t.Fatal("the spool is empty")
		}
		url, _ := startRedis(t)
		h := newHost(t, url)
		h.adopt(t)
		report, err := Drain(t.Context(), h.queue, slog.New(slog.DiscardHandler), dir)
		if err != nil || report.Failed != 0 || report.Torn != 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		wantJob(t, h.queue, "delayed", queue.Ready,
			func(j *queue.Job) bool { return string(j.Body) == `"delayed"` && j.Priority == queue.Normal })
		wantJob(t, h.queue, "due", queue.Ready, func(j *queue.Job) bool {
			return j.DueAt.Equal(written) && string(j.Body) == "\xff" && j.ContentType == "text/plain" && j.TTR == time.Minute &&
				j.MaxAttempts == 2 && j.Priority == queue.Low
		})
		wantJob(t, h.queue, "twice", queue.Ready, func(j *queue.Job) bool { return string(j.Body) == "2" })
		if spooled(dir) {
			t.Error("it is not empty after the drain")
		}
		if _, err := os.Stat(filepath.Join(dir, drainingName)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", drainingName, err)
		}
	})
}
