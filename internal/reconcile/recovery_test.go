package reconcile

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/race"
)

// TestRecoveryDryRunChangesNothingAndCounts; it does not count jobs of unregistered topics.
func TestRecoveryDryRunChangesNothingAndCounts(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	for _, id := range []string{"there", "missing", "delivered", "deleted", "dead"} {
		delay := time.Hour
		if slices.Contains([]string{"delivered", "dead"}, id) {
			delay = 0
		}
		h.push(t, id, `1`, delay)
		switch id {
		case "delivered", "dead":
			v := map[string]store.Verb{"delivered": store.Done, "dead": store.Bury}[id]
			if _, got, err := h.work(t.Context(), id, v); err != nil || got != id {
				t.Fatalf("%s: %v", got, err)
			}
		case "deleted":
			if err := h.queue.Delete(t.Context(), "t", id, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	client.FlushAll(t.Context())
	client.MSet(t.Context(), "wk:{0}:rev", 5_000_000, "wk:{0}:format", store.Format) // as after a comparison
	h.adopt(t)
	h.push(t, "there", `1`, time.Hour)
	before := remember(t, client)
	report, err := h.recover(t.Context(), true)
	want := Report{Jobs: 5, There: 1, Missing: 1, Delivered: 1, Deleted: 1, Dead: 1}
	if err != nil || report != want {
		t.Errorf("report %+v, %v\nwant %+v", report, err, want)
	}
	if after := remember(t, client); len(after) != len(before) {
		t.Errorf("%d keys, %d before", len(after), len(before))
	}
	o := Options{Shards: h.queue.Shards.All(), Dirs: []string{h.dir}, Topic: func(string) bool { return false }}
	if report, err = Recover(t.Context(), o); err != nil || report.Pushed != 0 || report.Unknown == 0 {
		t.Errorf("an unregistered topic: %+v, %v", report, err)
	}
	if report, err = h.recover(t.Context(), false); err != nil || report.Pushed != 1 || report.Restored != 1 {
		t.Errorf("report %+v, %v", report, err)
	}
}

// TestRecoveryByHandLeavesJobsThatEndMeanwhile: after a loss that was recovered, jobs are delivered and deleted while
// `wakecall recover` reads the journal and compares. None of them counts as missing or is pushed again.
func TestRecoveryByHandLeavesJobsThatEndMeanwhile(t *testing.T) {
	for _, dry := range []bool{true, false} {
		h, in, client := oneHost(t)
		attendAll(t, in)
		for _, id := range []string{"first", "second", "third"} {
			h.push(t, id, "1", 0)
		}
		h.push(t, "deleted", "1", time.Hour)
		h.push(t, "waits", "1", time.Hour)
		client.FlushAll(t.Context())
		attendAll(t, in)
		ready(t, h)
		lines := 0
		endSome := func(string) bool { // is called for each job after its lines were read, and before it is compared
			if lines++; lines == 1 {
				_ = h.queue.Delete(t.Context(), "t", "deleted", nil)
			}
			if lines < 3 || lines == 6 { // the sixth is read in the second round
				_, _, _ = h.work(t.Context(), fmt.Sprint(lines), store.Done)
			}
			return true
		}
		o := Options{Shards: h.queue.Shards.All(), Dirs: []string{h.dir}, DryRun: dry, Topic: endSome}
		report, err := Recover(t.Context(), o)
		if err != nil || report.Jobs != 5 || report.Missing+report.Pushed+report.Unknown > 0 {
			t.Errorf("dry run %t: %+v, %v", dry, report, err)
		}
		wantJob(t, h.queue, "waits", store.Delayed, func(*store.Job) bool { return true })
		stats, err := h.queue.Stats(t.Context(), []string{"t"})
		if n := stats["t"].Delayed + stats["t"].Ready; err != nil || n != 1 {
			t.Errorf("dry run %t: %d jobs are left, %v", dry, n, err)
		}
	}
}

// TestRecoveryReportsNothingWhenNothingWasLost: when another host joins, or a server is back with all of its data.
func TestRecoveryReportsNothingWhenNothingWasLost(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	inA, inB := a.heartbeatOf(t), b.heartbeatOf(t)
	var told []string
	var mu sync.Mutex
	inA.opts.Reported = func(_ string, r Report, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprint(r.String(), err))
	}
	inB.opts.Reported = inA.opts.Reported
	attendAll(t, inA)
	ready(t, a)
	for _, id := range []string{"delivered", "dead", "deleted", "changed", "waits"} {
		a.push(t, id, "1", 0)
	}
	for token, v := range map[string]store.Verb{"1": store.Done, "2": store.Bury, "3": store.Retry} {
		if _, _, err := a.work(t.Context(), token, v); err != nil {
			t.Fatal(err)
		}
	}
	_ = a.queue.Delete(t.Context(), "t", "deleted", nil) // otherwise it may have been delivered
	attendAll(t, inB)
	client.HDel(t.Context(), "wk:{0}:cmp", "run") // another server
	attendAll(t, inA, inB)
	if ready(t, a, b); len(told) > 0 {
		t.Fatalf("told: %q", told)
	}
	client.FlushAll(t.Context())
	attendAll(t, inA, inB)
	if len(told) == 0 {
		t.Error("a loss was not reported")
	}
}

// TestRecoveryOfALossDuringAComparison loses no lines: the next one begins at the same position. One host had replayed
// its journal by then, the other had not.
func TestRecoveryOfALossDuringAComparison(t *testing.T) {
	url, client := startRedis(t)
	a, b, inA, inB := twoHosts(t, url)
	b.push(t, "kept", `"b"`, time.Hour)
	b.push(t, "deleted", `"b"`, time.Hour)
	if err := a.queue.Delete(t.Context(), "t", "deleted", nil); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	began, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = inA.beat(began) }) // waits for the other host
	eventually(t, "a host to have replayed its journal", func() bool {
		return client.HExists(t.Context(), "wk:{0}:cmp", "by "+inA.host).Val()
	})
	cancel()
	wg.Wait()
	held := remember(t, client)
	held.forget(t, client)
	client.HSet(t.Context(), "wk:{0}:cmp", "run", "another")
	attendAll(t, inA, inB)
	ready(t, a, b)
	if _, err := a.queue.Get(t.Context(), "t", "kept"); err != nil {
		t.Errorf("kept: %v", err)
	}
	if _, err := a.queue.Get(t.Context(), "t", "deleted"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// TestRecoveryToleratesAHostsClockThatGoesBack just before a shard loses data, even to the day before: everything
// accepted since is in the journal after the position that the shard has stored.
func TestRecoveryToleratesAHostsClockThatGoesBack(t *testing.T) {
	for name, back := range map[string]time.Duration{"ten minutes": 10 * time.Minute, "over midnight": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			url, client := startRedis(t)
			h := newHost(t, url)
			a := h.heartbeatOf(t)
			attendAll(t, a)
			for _, id := range []string{"kept", "replaced", "deleted"} {
				h.push(t, id, `"old"`, time.Hour)
			}
			h.push(t, "delivered", `"old"`, 0)
			attendAll(t, a)
			before := remember(t, client)
			h.off.Store(-int64(back))
			h.push(t, "new", `"new"`, time.Hour)
			replace := store.Push{Topic: "t", ID: "replaced", Body: []byte(`"new"`), Delay: time.Hour,
				OnDuplicate: store.Replace}
			if r := h.queue.Push(t.Context(), replace); r.Err != nil {
				t.Fatal(r.Err)
			}
			if err := h.queue.Delete(t.Context(), "t", "deleted", nil); err != nil {
				t.Fatal(err)
			}
			if _, id, err := h.work(t.Context(), "token", store.Done); id != "delivered" || err != nil {
				t.Fatal(id, err)
			}
			before.forget(t, client)
			client.HDel(t.Context(), "wk:{0}:cmp", "run")
			attendAll(t, a)
			ready(t, h)
			for id, want := range map[string]string{"kept": `"old"`, "replaced": `"new"`, "new": `"new"`, "deleted": "",
				"delivered": ""} {
				job, err := h.queue.Get(t.Context(), "t", id)
				if want == "" && !errors.Is(err, store.ErrNotFound) || want != "" &&
					(err != nil || string(job.Body) != want) {
					t.Errorf("%s is %+v, %v, want %s", id, job, err, want)
				}
			}
		})
	}
}

// TestRecoveryKeepsAJobThatRanAgainThoughAClockWentBack: the line of a later push, which found the job, is in the file
// of the day before the one with its run.
func TestRecoveryKeepsAJobThatRanAgainThoughAClockWentBack(t *testing.T) {
	h, a, client := oneHost(t)
	h.push(t, "again", "1", 0)
	if _, id, err := h.work(t.Context(), "token", store.Bury); id != "again" || err != nil {
		t.Fatal(id, err)
	}
	if _, err := h.queue.RunNow(t.Context(), "t", "again", nil); err != nil {
		t.Fatal(err)
	}
	h.off.Store(-int64(24 * time.Hour))
	if r := h.queue.Push(t.Context(), store.Push{Topic: "t", ID: "again"}); !r.Duplicate {
		t.Fatalf("pushed again: %+v", r)
	}
	client.FlushAll(t.Context())
	attendAll(t, a)
	ready(t, h)
	if j, err := h.queue.Get(t.Context(), "t", "again"); err != nil || j.State != store.Ready {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestRecoveryReplaysLateLines: the lost server had answered these requests, and their lines were written after the
// comparison.
func TestRecoveryReplaysLateLines(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	attendAll(t, h.heartbeatOf(t))
	early := h.push(t, "early", `"1"`, time.Hour)
	h.mute.Store(true)
	late := h.push(t, "late", `"2"`, time.Hour)
	gone := h.push(t, "gone", `"3"`, time.Hour)
	h.mute.Store(false)
	client.FlushAll(t.Context())
	h.keep(t, time.Second)
	ready(t, h)
	lines := []journal.RequestLine{
		{Op: journal.OpPush, Topic: "t", ID: "late", Shard: "a", Revision: late.Revision, CreatedAt: late.CreatedAt,
			DueAt: late.DueAt, Body: []byte(`"2"`)},
		{Op: journal.OpPush, Topic: "t", ID: "gone", Shard: "a", Revision: gone.Revision, CreatedAt: gone.CreatedAt,
			DueAt: gone.DueAt, Body: []byte(`"3"`)},
		{Op: journal.OpDelete, Topic: "t", ID: "gone", Shard: "a", Revision: gone.Revision + 1,
			CreatedAt: gone.CreatedAt},
	}
	if err := h.journal.Requests(lines); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the late job to be back",
		func() bool { _, err := h.queue.Get(t.Context(), "t", "late"); return err == nil })
	if job, err := h.queue.Get(t.Context(), "t", "early"); err != nil || !job.DueAt.Equal(early.DueAt) {
		t.Errorf("early: %+v, %v", job, err)
	}
	if _, err := h.queue.Get(t.Context(), "t", "gone"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
}

// TestRecoveryOfTenThousandJobsTakesFiveSeconds after a shard has lost everything.
func TestRecoveryOfTenThousandJobsTakesFiveSeconds(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	h.keep(t, time.Second)
	ready(t, h)
	began := time.Now()
	h.fill(t, 10_000)
	filled := time.Since(began)
	best := time.Hour
	for range 3 { // the best of several runs, because the machine may be busy
		client.FlushAll(t.Context())
		began := time.Now()
		eventually(t, "the last job to be back",
			func() bool { _, err := h.queue.Get(t.Context(), "t", "9999"); return err == nil })
		best = min(best, time.Since(began))
	}
	limit := 5*time.Second + 5*filled // depends on how busy the machine is
	if race.Enabled {
		limit *= 3
	}
	if best > limit {
		t.Errorf("it took %s", best)
	}
}

// TestRecoverySkipsLinesThatCannotBeRead: an unknown kind of line, unknown members and a torn line.
func TestRecoverySkipsLinesThatCannotBeRead(t *testing.T) {
	url, _ := startRedis(t)
	h := newHost(t, url)
	h.adopt(t)
	h.push(t, "first", `1`, time.Hour)
	f, err := os.OpenFile(onlyFile(t, h.dir, "request-*.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"ts":"2025-10-17T13:00:00.000Z","op":"teleport","topic":"t","id":"first","rev":8,"to":"x"`,
		`{"ts":"2025-10-17T13:00:00.001Z","op":"push","topic":"t","id":"more","shard":"a","rev":9,` +
			`"due_at":7258215845678,"created_at":1760706000001,"priority":"urgent","mood":"good","body":"1"`,
	} {
		sum := crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli))
		_, failed := fmt.Fprintf(f, "%s,\"crc\":\"%08x\"}\n", line, sum)
		err = errors.Join(err, failed)
	}
	_, failed := f.WriteString(`{"ts":"2025-10-17T13:00:00.002Z","op":"push","topic":"t","id":"to`)
	err = errors.Join(err, failed)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	report, err := h.recover(t.Context(), false)
	if err != nil || report.Torn != 1 || report.Pushed != 1 || report.There != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	wantJob(t, h.queue, "more", store.Delayed, func(j *store.Job) bool { return j.Priority == store.Normal })
}

// TestRecoveryOfAFullRedis: it must open, or its jobs could never drain.
func TestRecoveryOfAFullRedis(t *testing.T) {
	h, in, client := oneHost(t)
	attendAll(t, in)
	h.push(t, "kept", "1", time.Hour)
	held := remember(t, client)
	h.push(t, "lost", "1", time.Hour)
	held.forget(t, client)
	client.HDel(t.Context(), "wk:{0}:cmp", "run")
	client.ConfigSet(t.Context(), "maxmemory", "1")
	defer client.ConfigSet(context.Background(), "maxmemory", "0")
	attendAll(t, in)
	ready(t, h)
	for _, id := range []string{"kept", "lost"} {
		if _, err := h.queue.Get(t.Context(), "t", id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if r := h.queue.Push(t.Context(), store.Push{Topic: "t", ID: "new", Body: []byte("1")}); r.Err == nil {
		t.Error("a push was accepted")
	}
}
