package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
	"github.com/wakecall/wakecall/test/wait"
)

// deafened is a fixture whose connections lose answers: of the next requests that have the mark, as many as lose says
// are carried out, and then the connection is closed in place of the answer.
func deafened(t *testing.T, mark string, o store.Options) (f *fixture, lose *atomic.Int32) {
	url, _ := startRedis(t)
	lose = new(atomic.Int32)
	link := proxied(t, url, func() (request, answer func([]byte) bool) {
		var deaf atomic.Bool
		request = func(b []byte) bool {
			if strings.Contains(string(b), mark) && lose.Add(-1) >= 0 {
				deaf.Store(true)
			}
			return true
		}
		return request, func([]byte) bool { return !deaf.Load() }
	})
	return fixtureOn(t, link, o), lose
}

// passOn copies until it must not or cannot continue, and closes both connections then.
func passOn(to, from net.Conn, may func([]byte) bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	b := make([]byte, 1<<20)
	for {
		n, err := from.Read(b)
		if err != nil || !may(b[:n]) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestAPushWhoseAnswerIsLostIsStoredOnce: the repeated call has the same ids and times.
func TestAPushWhoseAnswerIsLostIsStoredOnce(t *testing.T) {
	f, lose := deafened(t, `{"made":1}`, store.Options{})
	near := made("t", time.Minute)
	for round := range 3 {
		lose.Store(1)
		list := []store.Push{made("t", time.Hour), near,
			{Topic: "t", ID: fmt.Sprint("mine", round), Delay: time.Hour + time.Microsecond}, made("u", 3*time.Hour),
			made("t", time.Hour)}
		near = made("t", 0)
		results := f.q.PushBatch(f.ctx, list)
		if lose.Load() > 0 {
			t.Fatal("no answer was lost")
		}
		for i, r := range results {
			if r.Err != nil || r.Duplicate {
				t.Fatalf("push %d: %+v", i, r)
			}
			j := f.get(list[i].Topic, r.Job.ID)
			if !j.CreatedAt.Equal(r.Job.CreatedAt) || !j.DueAt.Equal(r.Job.DueAt) || j.State != r.Job.State {
				t.Errorf("push %d is answered\n%+v, and is\n%+v", i, r.Job, j)
			}
		}
		n := int64(round + 1)
		m, err := f.q.Stats(f.ctx, []string{"t", "u"})
		if err != nil || m["t"].Delayed+m["t"].Ready != 4*n || m["u"].Delayed != n {
			t.Fatalf("%+v, %v", m, err)
		}
	}
}

// TestWhatIsAnsweredIsThereAndNothingElse: many clients push at once while answers get lost, some twice in a row.
func TestWhatIsAnsweredIsThereAndNothingElse(t *testing.T) {
	f, lose := deafened(t, `{"made":1}`, store.Options{})
	ctx, cancel := context.WithCancel(f.ctx)
	var breaking, pushing sync.WaitGroup
	breaking.Go(func() {
		for i := 0; ctx.Err() == nil; {
			if lose.Load() < 0 { // an answer arrived
				lose.Store(int32(1 + i%4))
				i++
			}
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Millisecond):
			}
		}
		lose.Store(0)
	})
	var mu sync.Mutex
	answered, refused := map[string]store.Job{}, 0
	for range 8 {
		pushing.Go(func() {
			for range 60 {
				list := make([]store.Push, 5)
				for i := range list {
					list[i] = made("t", time.Hour)
				}
				results := f.q.PushBatch(f.ctx, list)
				mu.Lock()
				for _, r := range results {
					if r.Err != nil {
						refused++
						continue
					}
					if _, twice := answered[r.Job.ID]; twice || r.Duplicate {
						t.Errorf("the id %s was returned twice", r.Job.ID)
					}
					answered[r.Job.ID] = r.Job
				}
				mu.Unlock()
			}
		})
	}
	pushing.Wait()
	cancel()
	breaking.Wait()
	if refused == 0 || len(answered) == 0 {
		t.Fatalf("%d pushes were answered, %d refused", len(answered), refused)
	}
	eventually(t, "the shard answers", f.s.Up)
	m, err := f.q.Stats(f.ctx, []string{"t"})
	if n := int(m["t"].Delayed); err != nil || n < len(answered) || n > len(answered)+refused {
		t.Errorf("%d jobs of %d answered and %d refused pushes: %v", n, len(answered), refused, err)
	}
	for id, want := range answered {
		if j := f.get("t", id); j.ID != id || !j.CreatedAt.Equal(want.CreatedAt) || !j.DueAt.Equal(want.DueAt) {
			t.Errorf("answered %+v, is %+v", want, j)
		}
	}
}

// made is a push without an id.
func made(topic string, delay time.Duration) store.Push {
	return store.Push{Topic: topic, ID: store.NewID(), Fresh: true, Delay: delay, Priority: store.Normal, Body: []byte(`{"made":1}`)}
}

// proxied is the URL of a proxy for a Redis on a Unix socket. Each connection has its own functions, and is closed when
// they do not let a request or an answer pass.
func proxied(t *testing.T, url string, connect func() (request, answer func([]byte) bool)) string {
	t.Helper()
	sock := strings.TrimPrefix(url, "unix://")
	l, err := net.Listen("unix", sock+".proxy")
	if err != nil {
		t.Fatal(err)
	}
	proxy(t, l, "unix", sock, connect)
	return url + ".proxy"
}

// proxy passes on the connections of a listener to a server.
func proxy(t *testing.T, l net.Listener, network, addr string, connect func() (request, answer func([]byte) bool)) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial(network, addr)
			if err != nil {
				_ = c.Close()
				continue
			}
			request, answer := connect()
			wg.Go(func() { passOn(to, c, request) })
			wg.Go(func() { passOn(c, to, answer) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
}

// TestALostAnswerEndsNoMoreDeadJobsThanAsked: the repeated call would re-drive or delete the next ones.
func TestALostAnswerEndsNoMoreDeadJobsThanAsked(t *testing.T) {
	f, lose := deafened(t, "lost.letters", store.Options{})
	for i := range 5 {
		f.push("lost.letters", fmt.Sprint(i), 0)
	}
	f.settle(store.Bury, nil, f.reserve(5)...)
	// the server knows the script now
	if n, err := f.q.EndDead(f.ctx, store.DeadCall{Kind: store.Redriven, Topic: "lost.letters", Limit: 1}); n != 1 || err != nil {
		t.Fatalf("re-drove %d, %v", n, err)
	}
	for _, kind := range []store.ChangeKind{store.Redriven, store.DeadDeleted} {
		lose.Store(1)
		var un *store.UnavailableError
		what := store.DeadCall{Kind: kind, Topic: "lost.letters", Limit: 1}
		if n, err := f.q.EndDead(f.ctx, what); n != 0 || !errors.As(err, &un) {
			t.Errorf("%d, %v; want an error that says it may have been done", n, err)
		}
	}
	if m, err := f.q.Stats(f.ctx, []string{"lost.letters"}); m["lost.letters"].Dead != 2 || err != nil {
		t.Errorf("%+v are left of 4 dead jobs after two calls about one, %v", m, err)
	}
}

// TestARunWhoseAnswerIsLostIsRecorded although the repeated call finds the job due: if Redis loses the run, only the
// journal has it.
func TestARunWhoseAnswerIsLostIsRecorded(t *testing.T) {
	var recorded []store.Job
	changed := func(_ store.ChangeKind, jobs []store.Job) error { recorded = append(recorded, jobs...); return nil }
	f, lose := deafened(t, "run.lost", store.Options{Changed: changed})
	for i := range int32(2) { // the server knows the script at the second call
		f.push("run.lost", fmt.Sprint(i), time.Hour)
		lose.Store(i)
		if j, err := f.q.RunNow(f.ctx, "run.lost", fmt.Sprint(i), nil); err != nil || j.State != store.Ready {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	if len(recorded) != 2 || recorded[1].ID != "1" || recorded[1].Revision == 0 {
		t.Fatalf("recorded: %+v", recorded)
	}
	l := f.reserve(2)[0]
	if j, err := f.q.RunNow(f.ctx, "run.lost", l.ID, nil); err != nil || j.Revision != l.Revision {
		t.Errorf("the run of a delivered job has the revision %d, %v; its delivery has %d", j.Revision, err,
			l.Revision)
	}
}

// TestADeletionWhoseAnswerIsLostIsRecorded although the repeated call finds no job: if Redis loses the deletion, only
// the journal has it.
func TestADeletionWhoseAnswerIsLostIsRecorded(t *testing.T) {
	var recorded []store.Job
	changed := func(_ store.ChangeKind, jobs []store.Job) error { recorded = append(recorded, jobs...); return nil }
	f, lose := deafened(t, "delete.lost", store.Options{Changed: changed})
	pushed := map[string]int64{}
	for i := range int32(2) { // the server knows the script at the second call
		id := fmt.Sprint(i)
		pushed[id] = f.push("delete.lost", id, time.Hour).Job.Revision
		lose.Store(i)
		_, unavailable := errors.AsType[*store.UnavailableError](f.q.Delete(f.ctx, "delete.lost", id, nil))
		if unavailable != (i == 1) {
			t.Errorf("%s: unavailable is %v", id, unavailable)
		}
	}
	if len(recorded) != 2 || recorded[1].ID != "1" || recorded[1].Revision <= pushed["1"] {
		t.Fatalf("recorded: %+v", recorded)
	}
}

// TestAnAnswerThatIsCutOffTakesNothing: its jobs are released without counting an attempt.
func TestAnAnswerThatIsCutOffTakesNothing(t *testing.T) {
	url, _ := startRedis(t)
	var cut atomic.Bool
	link := proxied(t, url, func() (request, answer func([]byte) bool) {
		parts := 0
		return func([]byte) bool { return true }, func(b []byte) bool {
			if cut.Load() && len(b) > 1000 {
				parts++
			}
			return parts < 2
		}
	})
	f := fixtureOn(t, link, store.Options{})
	f.pullTopics("t")
	for i := range 50 {
		f.push("t", fmt.Sprint(i), 0, func(p *store.Push) { p.Body = make([]byte, 200_000) })
	}
	cut.Store(true)
	if jobs, err := f.q.Take(f.ctx, store.TakeRequest{Topics: []string{"t"}, Max: 50}); err == nil {
		t.Fatalf("took %d", len(jobs))
	}
	cut.Store(false)
	eventually(t, "they are ready again", func() bool {
		m, err := f.q.Stats(f.ctx, []string{"t"})
		return err == nil && m["t"].Ready == 50
	})
	if j := f.get("t", "0"); j.Attempts != 0 {
		t.Errorf("it counts %d attempts", j.Attempts)
	}
}

// TestALostAnswerOfAScriptThatFailsIsGivenUp: repeated for ever, it would refuse every later call.
func TestALostAnswerOfAScriptThatFailsIsGivenUp(t *testing.T) {
	f := newFixture(t)
	f.pullTopics("t")
	f.push("t", "a", 0)
	take := f.takeOf("t", "w1")
	if err := take.CallForTest(); err != nil {
		t.Fatal(err)
	}
	f.must("RENAME", "wk:{0}:j:t", "wk:{0}:j:damaged")
	f.must("SET", "wk:{0}:j:t", "damaged")
	ended := make(chan struct{})
	f.s.Start(func() { take.RecoverForTest(); close(ended) })
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the call is repeated again and again")
	}
}

// TestEachCopyOfAPushIsDueWhenTheAnswerSays, or later: the first shard stores the job, but its answers are lost.
func TestEachCopyOfAPushIsDueWhenTheAnswerSays(t *testing.T) {
	urlA, _ := startRedis(t)
	urlB, _ := startRedis(t)
	slow := proxied(t, urlB, func() (request, answer func([]byte) bool) {
		pass := func([]byte) bool { return true }
		return pass, func([]byte) bool { // its clock is known to within so long
			time.Sleep(20 * time.Millisecond)
			return true
		}
	})
	var lose atomic.Int32
	link := proxied(t, urlA, func() (request, answer func([]byte) bool) {
		var deaf atomic.Bool
		request = func(b []byte) bool {
			if strings.Contains(string(b), "copied") && lose.Add(-1) >= 0 {
				deaf.Store(true)
			}
			return true
		}
		return request, func([]byte) bool {
			if deaf.Load() {
				time.Sleep(50 * time.Millisecond) // the connection hangs before it breaks
			}
			return !deaf.Load()
		}
	})
	q := open(store.Options{})
	t.Cleanup(func() { _ = q.Close() })
	shards := []store.ShardConfig{{Name: "a", URL: link, State: "active"}, {Name: "b", URL: slow, State: "active"}}
	if err := q.Shards.Set(shards); err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards.All()[0], b: q.Shards.Buckets()[0]}
	id := f.homeIs("a", "t")
	f.push("t", id, time.Hour) // the server knows the script now
	if err := f.q.Delete(f.ctx, "t", id, nil); err != nil {
		t.Fatal(err)
	}
	for _, delay := range []time.Duration{0, time.Minute} {
		lose.Store(2)
		began := time.Now().Truncate(time.Millisecond)
		r := f.push("t", id, delay, func(p *store.Push) { p.Body, p.Fresh = []byte(`"copied"`), true })
		first, err := read(f.ctx, f.s, "t", id)
		if err != nil || first == nil || r.Job.Shard != "b" {
			t.Fatalf("the copy is %+v, %v; answered: %+v", first, err, r.Job)
		}
		if first.DueAt.Before(r.Job.DueAt) {
			t.Errorf("delay %s: the copy is due %s before the answered time", delay, r.Job.DueAt.Sub(first.DueAt))
		}
		second, err := read(f.ctx, q.Shards.All()[1], "t", id)
		if err != nil || second == nil {
			t.Fatalf("the second copy is %+v, %v", second, err)
		}
		if second.DueAt.Before(r.Job.DueAt) || second.DueAt.Before(began.Add(delay)) ||
			r.Job.DueAt.Before(began.Add(delay-time.Second)) {
			t.Errorf("delay %s from %s: answered %+v, the job is %+v", delay, began, r.Job, second)
		}
		if err := f.q.Delete(f.ctx, "t", id, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// TestACallThatWasNotSentIsRepeated: connections that break before a call is sent leave no doubt about its outcome.
func TestACallThatWasNotSentIsRepeated(t *testing.T) {
	url, _ := startRedis(t)
	var broken atomic.Int32
	link := proxied(t, url, func() (request, answer func([]byte) bool) {
		works := broken.Add(-1) < 0
		pass := func([]byte) bool { return works }
		return pass, pass
	})
	f := fixtureOn(t, link, store.Options{})
	f.push("t", "a", time.Hour)
	_ = f.s.Redis().Close()
	client, _, err := store.Connect(link, store.Options{Buckets: 16, Timeout: wait.Limit}, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.s.UseForTest(client)
	broken.Store(4) // more than a call whose reply is lost would repeat
	if err := f.q.Delete(f.ctx, "t", "a", nil); err != nil {
		t.Error(err)
	}
	if broken.Load() >= 0 {
		t.Error("no connection broke")
	}
}
