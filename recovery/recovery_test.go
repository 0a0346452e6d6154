package recovery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/wakecall/wakecall/journal"
	"github.com/wakecall/wakecall/queue"
	"github.com/wakecall/wakecall/record"
	"github.com/wakecall/wakecall/test/wait"
)

// startRedis starts a redis-server that keeps nothing, on a socket of its own.
func startRedis(t *testing.T) (url string, client *redis.Client) {
	t.Helper()
	dir, err := os.MkdirTemp("", "wkr")
	if err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", sock, "--dir", dir, "--save", "")
	if err := cmd.Start(); err != nil {
		t.Fatalf("start redis-server: %v", err)
	}
	client = redis.NewClient(&redis.Options{Network: "unix", Addr: sock})
	t.Cleanup(func() { _ = client.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = os.RemoveAll(dir) })
	eventually(t, "redis-server to answer", func() bool { return client.Ping(t.Context()).Err() == nil })
	return "unix://" + sock, client
}

var eventually = wait.For

// host is a journal and the queue that writes it.
type host struct {
	dir     string
	full    bool // its disk
	journal *journal.Journal
	queue   *queue.Queue
}

func newHost(t *testing.T, url string) *host {
	t.Helper()
	h := &host{dir: t.TempDir()}
	var err error
	if h.journal, err = journal.Open(journal.Options{Dir: h.dir}); err != nil {
		t.Fatal(err)
	}
	h.queue = queue.Open(queue.Options{
		Accepted: func(pushes []queue.Push, results []queue.Result) error {
			if h.full {
				return errors.New("the disk is full")
			}
			return record.Recorder{Journal: h.journal}.Accepted(pushes, results)
		},
		Changed: record.Recorder{Journal: h.journal}.Changed,
	})
	t.Cleanup(func() { _, _ = h.queue.Close(), h.journal.Close() })
	if err := h.queue.SetShards(t.Context(), []queue.ShardConfig{{Name: "a", URL: url, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) change(ctx context.Context, topic, id string, c queue.Change) error {
	_, err := h.queue.Change(ctx, topic, id, c)
	return err
}

// work reserves one job and ends its attempt, in the order of a dispatcher: journal, then settle.
func (h *host) work(ctx context.Context, token string, v queue.Verdict) (topic, id string, err error) {
	s := h.queue.Shards()[0]
	got, err := s.Reserve(ctx, 0, queue.Reserve{Worker: "w", Token: token, Max: 1, Pattern: "0102010201"})
	if err != nil || len(got.Jobs) == 0 {
		return "", "", err
	}
	l := got.Jobs[0]
	outcome := map[queue.Verdict]journal.Outcome{queue.Done: journal.Done, queue.Retry: journal.Retry, queue.Bury: journal.Dead}[v]
	err = h.journal.Attempts([]journal.AttemptLine{{Topic: l.Topic, ID: l.ID, CreatedAt: l.CreatedAt, N: l.Attempts + 1, StartedAt: time.Now(),
		Outcome: outcome, Shard: l.Shard}})
	if err != nil {
		return "", "", err
	}
	st := queue.Settlement{Lease: l, Verdict: v, Delay: time.Hour, Attempt: &queue.Attempt{StartedAt: time.Now().UnixMilli()}}
	_, err = s.Settle(ctx, 0, []queue.Settlement{st})
	return l.Topic, l.ID, err
}

// memory is what a Redis holds at a moment.
type memory map[string]string

func remember(t fataler, c *redis.Client) memory {
	m := memory{}
	keys, err := c.Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatalf("keys: %v", err)
	}
	for _, k := range keys {
		m[k] = c.Dump(context.Background(), k).Val()
	}
	return m
}

// forget takes a Redis back to that moment.
func (m memory) forget(t fataler, c *redis.Client) {
	if err := c.FlushAll(context.Background()).Err(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	for k, v := range m {
		if err := c.Restore(context.Background(), k, 0, v).Err(); err != nil {
			t.Fatalf("restore %s: %v", k, err)
		}
	}
}

type fataler interface{ Fatalf(string, ...any) }

// TestWhateverAShardForgotIsPutRight: pushes, replacements, changes, deletions and callbacks in any order; the shard goes back to any moment
// among them, or loses everything; after the recovery every job that lived lives as it was changed last, and none that ended does.
func TestWhateverAShardForgotIsPutRight(t *testing.T) {
	url, client := startRedis(t)
	rapid.Check(t, func(rt *rapid.T) {
		if err := client.FlushAll(context.Background()).Err(); err != nil {
			rt.Fatalf("flush: %v", err)
		}
		h := newHost(t, url)
		defer h.queue.Close()
		ctx := context.Background()
		model := map[string]queue.Push{} // what lives
		dead := map[string]bool{}
		moments := []memory{{}}
		ids := []string{"a", "b", "c", "d"} // and those that the queue made
		steps := rapid.IntRange(1, 25).Draw(rt, "steps")
		for i := range steps {
			id := rapid.SampledFrom(ids).Draw(rt, "id")
			switch rapid.SampledFrom([]string{"push", "push", "made", "made", "replace", "change", "delete", "deliver", "fail", "bury"}).Draw(rt, "op") {
			case "push":
				push(rt, h, model, id, queue.Keep, i)
			case "replace":
				if r := push(rt, h, model, id, queue.Replace, i); r.Duplicate {
					delete(dead, id)
				}
			case "made":
				r := h.queue.Push(ctx, queue.Push{Topic: "t", ID: queue.NewID(), Fresh: true, Body: fmt.Appendf(nil, `"made %d"`, i), Delay: time.Hour})
				if r.Err != nil || model[r.Job.ID].Body != nil {
					rt.Fatalf("push: %+v", r)
				}
				model[r.Job.ID] = queue.Push{Body: fmt.Appendf(nil, `"made %d"`, i), DueAt: r.Job.DueAt}
				ids = append(ids, r.Job.ID)
			case "change":
				body, due := fmt.Appendf(nil, `"changed %d"`, i), time.Now().Add(2*time.Hour).Truncate(time.Millisecond)
				if err := h.change(ctx, "t", id, queue.Change{Body: &body, DueAt: &due}); err == nil {
					model[id] = queue.Push{Body: body, DueAt: due.UTC(), Priority: model[id].Priority}
				}
			case "delete":
				if err := h.queue.Delete(ctx, "t", id); err == nil {
					delete(model, id)
					delete(dead, id)
				}
			case "deliver", "fail", "bury":
				v := rapid.SampledFrom([]queue.Verdict{queue.Done, queue.Retry, queue.Bury}).Draw(rt, "verdict")
				_, id, err := h.work(ctx, fmt.Sprint(i), v)
				if err != nil {
					rt.Fatalf("work: %v", err)
				}
				if v == queue.Done {
					delete(model, id)
				}
				dead[id] = v == queue.Bury && id != ""
			}
			moments = append(moments, remember(rt, client))
			time.Sleep(time.Millisecond) // an id that is used again within a millisecond of its delivery cannot be told apart
		}
		rapid.SampledFrom(moments).Draw(rt, "the moment it remembers").forget(rt, client)
		for range 2 { // doing it again does no harm
			if _, err := Recover(ctx, Options{Queue: h.queue, Dirs: []string{h.dir}, Settle: time.Nanosecond}); err != nil {
				rt.Fatalf("recover: %v", err)
			}
		}
		for _, id := range ids {
			job, err := h.queue.Get(ctx, "t", id)
			want, lives := model[id]
			switch {
			case dead[id] && err != nil: // it may live again, and die again
				rt.Fatalf("%s is dead by the journal, and cannot be seen: %v", id, err)
			case dead[id]:
			case lives && err != nil:
				rt.Fatalf("%s lives by the journal: %v", id, err)
			case !lives && err == nil:
				rt.Fatalf("%s ended, and lives again: %+v", id, job)
			case lives && string(job.Body) != string(want.Body):
				rt.Fatalf("%s has the body %s, want %s", id, job.Body, want.Body)
			case lives && !job.DueAt.Equal(want.DueAt):
				rt.Fatalf("%s is due %s, want %s", id, job.DueAt, want.DueAt)
			case lives && job.Priority != want.Priority:
				rt.Fatalf("%s has priority %s, want %s", id, job.Priority, want.Priority)
			}
		}
	})
}

func push(rt *rapid.T, h *host, model map[string]queue.Push, id string, od queue.OnDuplicate, i int) queue.Result {
	p := queue.Push{
		Topic: "t", ID: id, Body: fmt.Appendf(nil, `"pushed %d"`, i), OnDuplicate: od,
		Delay:    rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(rt, "delay"),
		Priority: rapid.SampledFrom([]queue.Priority{queue.High, queue.Normal, queue.Low}).Draw(rt, "priority"),
	}
	r := h.queue.Push(context.Background(), p)
	if r.Err != nil {
		rt.Fatalf("push: %v", r.Err)
	}
	if !r.Duplicate || od == queue.Replace {
		p.DueAt = r.Job.DueAt
		model[id] = p
	}
	return r
}

// TestLateLinesAreCompared: what was answered by the server that is gone, and came to the journal after the comparison, is found by the next one,
// beside any number of jobs that only the new server has had.
func TestLateLinesAreCompared(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	defer h.queue.Close()
	r := h.queue.Push(t.Context(), queue.Push{Topic: "t", ID: "late", Body: []byte("1"), Delay: time.Hour})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	before := r.Job.CreatedAt.Add(time.Millisecond)
	for range 3 {
		if r := h.queue.Push(t.Context(), queue.Push{Topic: "t", ID: rand.Text(), Body: []byte("1"), Delay: time.Hour}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	o := Options{Queue: h.queue, Dirs: []string{h.dir}, Shard: "a", Settle: time.Nanosecond, Empty: true, Before: before, Late: time.Now()}
	if report, err := Recover(t.Context(), o); err != nil || report != (Report{}) {
		t.Fatalf("nothing came late: %v, %v", report.String(), err)
	}
	o.Late = r.Job.CreatedAt.Add(-time.Hour)
	pass := recovery{Options: o, report: &Report{}, parts: 1}
	pass.Logger, pass.Topic = slog.New(slog.DiscardHandler), func(string) bool { return true }
	if err := pass.run(t.Context()); err != nil || pass.report.Pushed != 1 {
		t.Fatalf("one line came late: %v, %v", pass.report.String(), err)
	}
	if n := len(pass.books.entries); n != 1 {
		t.Errorf("%d jobs were kept in mind beside it", n-1)
	}
	if _, err := h.queue.Get(t.Context(), "t", "late"); err != nil {
		t.Error(err)
	}
}

func TestADryRunChangesNothingAndCounts(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	for _, id := range []string{"there", "missing", "delivered", "deleted", "dead"} {
		delay := time.Hour
		if slices.Contains([]string{"delivered", "dead"}, id) {
			delay = 0
		}
		if r := h.queue.Push(t.Context(), queue.Push{Topic: "t", ID: id, Body: []byte("1"), Delay: delay}); r.Err != nil {
			t.Fatal(r.Err)
		}
		switch id {
		case "delivered", "dead":
			v := map[string]queue.Verdict{"delivered": queue.Done, "dead": queue.Bury}[id]
			if _, got, err := h.work(t.Context(), id, v); err != nil || got != id {
				t.Fatalf("%s: %v", got, err)
			}
		case "deleted":
			if err := h.queue.Delete(t.Context(), "t", id); err != nil {
				t.Fatal(err)
			}
		}
	}
	client.FlushAll(t.Context())
	if r := h.queue.Push(t.Context(), queue.Push{Topic: "t", ID: "there", Body: []byte("1"), Delay: time.Hour}); r.Err != nil {
		t.Fatal(r.Err)
	}
	before := remember(t, client)
	o := Options{Queue: h.queue, Dirs: []string{h.dir}, DryRun: true}
	report, err := Recover(t.Context(), o)
	want := Report{Jobs: 5, There: 1, Missing: 1, Delivered: 1, Deleted: 1, Dead: 1}
	if err != nil || report != want {
		t.Errorf("report %+v, %v\nwant %+v", report, err, want)
	}
	if after := remember(t, client); len(after) != len(before) {
		t.Errorf("%d keys, before %d", len(after), len(before))
	}
	o.Topic = func(string) bool { return false }
	o.DryRun = false
	if report, err = Recover(t.Context(), o); err != nil || report.Pushed != 0 || report.Unknown != 2 {
		t.Errorf("a topic that is not registered: %+v, %v", report, err)
	}
}

// keep runs a host's keeper, as its redis-checker does.
func (h *host) keep(t *testing.T) *Keeper {
	t.Helper()
	k, err := NewKeeper(KeeperOptions{
		Dir: h.dir, Shards: func() []Shard { return []Shard{h.queue.Shards()[0]} }, Queue: h.queue, Ready: h.queue.Ready,
		Topic: func(string) bool { return true }, Every: 10 * time.Millisecond, Quiet: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return k
}

// byTurns has two hosts change the same jobs, one after the other: their lines tell the order by milliseconds.
func byTurns(t *testing.T, a, b *host) {
	t.Helper()
	change := func(h *host, id, body string, delay time.Duration) {
		c := queue.Change{}
		if text := []byte(body); body != "" {
			c.Body = &text
		}
		if due := time.Now().Add(delay).Truncate(time.Hour); delay != 0 {
			c.DueAt = &due
		}
		if err := h.change(t.Context(), "t", id, c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	for _, id := range []string{"by-turns", "late-here", "late-there"} {
		if r := a.queue.Push(t.Context(), queue.Push{Topic: "t", ID: id, Body: []byte(`"old"`), Delay: time.Hour}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	change(a, "by-turns", `"first"`, 0)
	change(b, "by-turns", `"second"`, 5*time.Hour)
	change(a, "by-turns", "", 9*time.Hour)
	change(b, "late-here", `"there"`, 0)
	change(a, "late-here", `"here"`, 0)
	change(a, "late-there", `"here"`, 0)
	change(b, "late-there", `"there"`, 0)
}

// TestHostsTellEachOtherWhatEnded: one host accepts, another changes, deletes, delivers and buries; the shard loses everything. What ended stays
// ended, what died is dead, what was changed is as it was changed.
func TestHostsTellEachOtherWhatEnded(t *testing.T) {
	url, client := startRedis(t)
	a, b := newHost(t, url), newHost(t, url)
	ka, kb := a.keep(t), b.keep(t)
	eventually(t, "the hosts to have heard of each other", func() bool { return len(ka.hosts.others()) == 1 && len(kb.hosts.others()) == 1 })
	for _, id := range []string{"kept", "changed", "deleted", "delivered", "died"} {
		p := queue.Push{Topic: "t", ID: id, Body: []byte(`"old"`), Delay: time.Hour}
		if id == "delivered" || id == "died" {
			p.Delay = 0
		}
		if r := a.queue.Push(t.Context(), p); r.Err != nil {
			t.Fatal(r.Err)
		}
		switch id {
		case "delivered", "died":
			v := map[string]queue.Verdict{"delivered": queue.Done, "died": queue.Bury}[id]
			if _, got, err := b.work(t.Context(), id, v); err != nil || got != id {
				t.Fatalf("%s: %v", got, err)
			}
		}
	}
	body, due := []byte(`"new"`), time.Now().Add(2*time.Hour).Truncate(time.Millisecond)
	if err := b.change(t.Context(), "t", "changed", queue.Change{Body: &body, DueAt: &due}); err != nil {
		t.Fatal(err)
	}
	if err := a.change(t.Context(), "t", "deleted", queue.Change{Body: &body}); err != nil { // whoever asks has a word of its own on it
		t.Fatal(err)
	}
	if err := b.queue.Delete(t.Context(), "t", "deleted"); err != nil {
		t.Fatal(err)
	}
	byTurns(t, a, b)
	client.FlushAll(t.Context())
	for _, id := range []string{"kept", "changed", "died"} {
		eventually(t, id+" to be there again", func() bool { _, err := a.queue.Get(t.Context(), "t", id); return err == nil })
	}
	eventually(t, "both hosts to have compared", func() bool { return client.HLen(t.Context(), "wk:{0}:seen").Val() == 2 })
	for _, id := range []string{"deleted", "delivered"} {
		if _, err := a.queue.Get(t.Context(), "t", id); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("%s is there again: %v", id, err)
		}
	}
	if job, err := a.queue.Get(t.Context(), "t", "changed"); err != nil || string(job.Body) != string(body) || !job.DueAt.Equal(due) {
		t.Errorf("the changed job is %+v, %v", job, err)
	}
	for id, want := range map[string]string{"by-turns": `"second"`, "late-here": `"here"`, "late-there": `"there"`} {
		if job, err := a.queue.Get(t.Context(), "t", id); err != nil || string(job.Body) != want {
			t.Errorf("%s is %+v, %v, want the body %s", id, job, err, want)
		}
	}
	if job, err := a.queue.Get(t.Context(), "t", "by-turns"); err != nil || time.Until(job.DueAt) < 7*time.Hour {
		t.Errorf("the job that was changed by turns is %+v, %v", job, err)
	}
	if job, err := a.queue.Get(t.Context(), "t", "died"); err != nil || job.State != queue.Dead || job.Attempts != 1 || len(job.History) != 1 {
		t.Errorf("the dead job is %+v, %v", job, err)
	}
}

// TestWhatWasMovedIsBroughtBackWhereItWas: a shard that took the jobs of another one loses everything. What was deleted stays so, also when the
// line of its move was written after that of its deletion.
func TestWhatWasMovedIsBroughtBackWhereItWas(t *testing.T) {
	urlA, _ := startRedis(t)
	urlB, b := startRedis(t)
	h := newHost(t, urlA)
	for _, id := range []string{"1", "2", "deleted", "changed"} {
		if r := h.queue.Push(t.Context(), queue.Push{Topic: "t", ID: id, Body: []byte(`"old"`), Delay: time.Hour}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	body := []byte(`"new"`)
	if err := h.change(t.Context(), "t", "changed", queue.Change{Body: &body}); err != nil {
		t.Fatal(err)
	}
	if err := h.queue.SetShards(t.Context(), []queue.ShardConfig{{Name: "a", URL: urlA, State: "draining"}, {Name: "b", URL: urlB, State: "active"}}); err != nil {
		t.Fatal(err)
	}
	if n, err := h.queue.Drain(t.Context(), h.queue.Shards()[0], "me"); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	gone, err := h.queue.Get(t.Context(), "t", "deleted")
	if err == nil {
		err = h.queue.Delete(t.Context(), "t", "deleted")
	}
	if err == nil {
		err = h.journal.Requests([]journal.RequestLine{{Op: journal.OpMove, Topic: "t", ID: "deleted", Shard: "b", CreatedAt: gone.CreatedAt, DueAt: gone.DueAt}})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.FlushAll(t.Context())
	time.Sleep(clockSlack) // what is younger is read twice
	report, err := Recover(t.Context(), Options{Queue: h.queue, Dirs: []string{h.dir}, Shard: "b", Settle: time.Nanosecond})
	if err != nil || report.Pushed != 3 || report.Deleted != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	for id, want := range map[string]string{"1": `"old"`, "2": `"old"`, "changed": `"new"`} {
		if j, err := h.queue.Get(t.Context(), "t", id); err != nil || j.Shard != "b" || string(j.Body) != want {
			t.Errorf("%s is %+v, %v", id, j, err)
		}
	}
}

// meanwhile is another host that knows nothing, and does something while it is asked.
type meanwhile func()

func (m meanwhile) Ends(_ context.Context, names []string) ([]string, error) {
	m()
	return make([]string, len(names)), nil
}

// TestAChangeMadeMeanwhileStands: of jobs that were changed here, one is changed on another host while journals are compared, and one is in a
// shard that forgot nothing.
func TestAChangeMadeMeanwhileStands(t *testing.T) {
	url, _ := startRedis(t)
	h, pusher := newHost(t, url), newHost(t, url)
	first, second := time.Now().Add(time.Hour).Truncate(time.Millisecond), time.Now().Add(2*time.Hour).Truncate(time.Millisecond)
	for _, shard := range []string{"a", "another"} {
		id := "in-" + shard
		if r := pusher.queue.Push(t.Context(), queue.Push{Topic: "t", ID: id, Delay: time.Minute}); r.Err != nil {
			t.Fatal(r.Err)
		}
		job, err := h.queue.Change(t.Context(), "t", id, queue.Change{DueAt: &first})
		if err == nil {
			err = h.journal.Requests([]journal.RequestLine{{Op: journal.OpChange, Topic: "t", ID: id, Shard: shard, DueAt: first, CreatedAt: job.CreatedAt}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change := func(id string) {
		if _, err := h.queue.Change(t.Context(), "t", id, queue.Change{DueAt: &second}); err != nil {
			t.Error(err)
		}
	}
	change("in-another")
	report, err := Recover(t.Context(), Options{
		Queue: h.queue, Dirs: []string{h.dir}, Shard: "a", Settle: time.Nanosecond, Others: meanwhile(func() { change("in-a") }),
	})
	if err != nil || report.Changed != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, id := range []string{"in-a", "in-another"} {
		if j, err := h.queue.Get(t.Context(), "t", id); err != nil || !j.DueAt.Equal(second) {
			t.Errorf("%s is due %v, %v", id, j.DueAt, err)
		}
	}
}

// TestAPushIsKnownThatWasAnsweredTheSecondTime: the journal could not take it at first, so the job was there when it was pushed again.
func TestAPushIsKnownThatWasAnsweredTheSecondTime(t *testing.T) {
	url, client := startRedis(t)
	h := newHost(t, url)
	push := func() queue.Result {
		return h.queue.Push(t.Context(), queue.Push{Topic: "t", ID: "1", Body: []byte(`"body"`), Delay: time.Hour})
	}
	h.full = true
	if r := push(); r.Err == nil {
		t.Fatal("a push that the journal did not take was answered")
	}
	h.full = false
	first := push()
	if first.Err != nil || !first.Duplicate {
		t.Fatalf("%+v", first)
	}
	client.FlushAll(t.Context())
	if report, err := Recover(t.Context(), Options{Queue: h.queue, Dirs: []string{h.dir}, Settle: time.Nanosecond}); err != nil || report.Pushed != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if j, err := h.queue.Get(t.Context(), "t", "1"); err != nil || string(j.Body) != `"body"` || !j.DueAt.Equal(first.Job.DueAt) {
		t.Fatalf("%+v, %v", j, err)
	}
}
