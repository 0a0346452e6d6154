package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// made is a push that leaves its id to the queue.
func made(topic string, delay time.Duration) Push {
	return Push{Topic: topic, ID: NewID(), Fresh: true, Delay: delay, Priority: Normal, Body: []byte(`{"made":1}`)}
}

// pushMade pushes one and returns its id.
func (f *fixture) pushMade(topic string, delay time.Duration, more ...func(*Push)) string {
	f.Helper()
	p := made(topic, delay)
	for _, m := range more {
		m(&p)
	}
	r := f.q.Push(f.ctx, p)
	if r.Err != nil || r.Duplicate {
		f.Fatalf("push: %+v", r)
	}
	if named := r.Job.ID != p.ID; named != (delay >= 2*time.Minute) || named && len(r.Job.ID) != placeLen {
		f.Fatalf("a job due in %s has the id %s", delay, r.Job.ID)
	}
	return r.Job.ID
}

func TestAnIDNamesItsPlace(t *testing.T) {
	nonce := "\x80\x01\xff\xfe\x00"
	for _, place := range []int64{1<<indexBits + 1, 1<<indexBits + 1023, 77<<indexBits + 512, 1<<51 - 1} {
		for priority := range int64(3) {
			id := placeID(place*4+priority, nonce)
			got := appendPlace(nil, id)
			want := appendUint48(nil, place>>indexBits)
			want = append(want, byte(place>>8)&3, byte(place))
			if string(got) != string(want)+nonce {
				t.Errorf("place %d: %s names %x", place, id, got)
			}
		}
	}
	good := placeID(5<<12, nonce)
	bad := []string{"", "p", NewID(), strings.ToUpper(good), good + "0", good[1:], "q" + good[1:], good[:20] + "1", good[:20] + "u",
		placeID(0, nonce), placeID(4<<indexBits, nonce), placeID(4, nonce), placeID(math.MaxInt64, nonce), placeID(5<<12, "\x00bcde"), placeID(5<<12, "\xc0bcde")}
	for _, id := range bad {
		if got := appendPlace(nil, id); got != nil && id != good {
			t.Errorf("%q names %x", id, got)
		}
	}
	for range 1000 {
		p := made("t", 0)
		nonce, ok := nonceOf(&p)
		if !ok || !isNonce(string(nonce[:])) {
			t.Fatalf("%s gives %x", p.ID, nonce)
		}
	}
	for _, p := range []Push{{ID: NewID()}, {ID: "mine", Fresh: true}, {ID: strings.Repeat("!", madeLen), Fresh: true}} {
		if _, ok := nonceOf(&p); ok {
			t.Errorf("%+v has a nonce", p)
		}
	}
}

// locators are how many locators there are.
func (f *fixture) locators() (n int64) {
	f.Helper()
	for _, key := range f.s.client.Keys(f.ctx, "*i:*").Val() {
		if f.s.client.Type(f.ctx, key).Val() == "hash" {
			n += f.s.client.HLen(f.ctx, key).Val()
		}
	}
	return n
}

func TestAJobWithoutItsOwnIDIsFoundByItsPlace(t *testing.T) {
	f := newFixture(t)
	long := func(p *Push) {
		p.Body, p.TTR, p.MaxAttempts, p.ContentType = []byte(strings.Repeat("x", 5000)), 7*time.Second, 3, "text/plain"
	}
	id, other := f.pushMade("t", time.Hour, long), f.pushMade("t", time.Hour)
	if n := f.locators(); n != 0 {
		t.Fatalf("%d locators", n)
	}
	j := f.get("t", id)
	if j.ID != id || j.State != Delayed || len(j.Body) != 5000 || j.TTR != 7*time.Second || j.MaxAttempts != 3 || j.ContentType != "text/plain" {
		t.Fatalf("%+v", j)
	}
	if j := f.get("t", other); j.ID != other || string(j.Body) != `{"made":1}` {
		t.Fatalf("%+v", j)
	}
	jobs, _, err := f.q.List(f.ctx, "t", Delayed, "", 10)
	if err != nil || len(jobs) != 2 || jobs[0].ID != id || jobs[1].ID != other {
		t.Fatalf("listed %+v, %v", jobs, err)
	}
	found, err := f.q.Find(f.ctx, id, []string{"u", "t"})
	if err != nil || len(found) != 1 || found[0].Topic != "t" || found[0].ID != id {
		t.Fatalf("found %+v, %v", found, err)
	}
	f.gone("u", id)
	if err := f.q.Delete(f.ctx, "t", id); err != nil {
		t.Fatal(err)
	}
	f.gone("t", id)
	if err := f.q.Delete(f.ctx, "t", id); !errors.Is(err, ErrNotFound) {
		t.Fatalf("deleted again: %v", err)
	}
	if err := f.q.Delete(f.ctx, "t", other); err != nil {
		t.Fatal(err)
	}
	f.advance()
	f.clean()
}

// openPages has the minute of every page of a topic come that is not open yet.
func openPages(ctx context.Context, s *Shard, topic string) error {
	pages := s.client.ZRangeWithScores(ctx, prefix(0)+"pg:"+topic, 0, -1).Val()
	for _, z := range pages {
		key := prefix(0) + "p:" + z.Member.(string)
		for i, rec := range s.client.LRange(ctx, key, 0, -1).Val() {
			if i > 0 && rec != "" {
				s.client.LSet(ctx, key, int64(i), string(appendUint48(nil, time.Now().UnixMilli()-1))+rec[6:])
			}
		}
		s.client.HDel(ctx, prefix(0)+"cur", topic+"/"+fmt.Sprintf("%.0f", z.Score))
		s.client.ZAdd(ctx, prefix(0)+"pg:"+topic, redis.Z{Score: 60000, Member: z.Member})
	}
	if len(pages) > 0 {
		s.client.ZAdd(ctx, prefix(0)+"due", redis.Z{Score: 1, Member: topic})
	}
	for more := true; more; {
		a, err := s.Advance(ctx, 0)
		if err != nil {
			return err
		}
		more = a.More
	}
	return nil
}

// TestAJobWithoutItsOwnIDGoesThroughEveryState under one id, by which it is found in each.
func TestAJobWithoutItsOwnIDGoesThroughEveryState(t *testing.T) {
	f := newFixture(t)
	id := f.pushMade("t", time.Hour, func(p *Push) { p.Body = []byte(strings.Repeat("x", 5000)) })
	is := func(state State, attempts int) {
		t.Helper()
		if j := f.get("t", id); j.ID != id || j.State != state || j.Attempts != attempts || len(j.Body) != 5000 {
			t.Fatalf("%+v; want it %s", j, state)
		}
	}
	lease := func() *Lease {
		t.Helper()
		ls := f.reserve(10)
		if len(ls) != 1 || ls[0].ID != id || len(ls[0].Body) != 5000 {
			t.Fatalf("reserved %+v", ls)
		}
		return ls[0]
	}
	if err := openPages(f.ctx, f.s, "t"); err != nil {
		t.Fatal(err)
	}
	is(Ready, 0)
	l := lease()
	is(Running, 0)
	f.settle(Retry, func(s *Settlement) { s.Delay = time.Hour }, l)
	is(Delayed, 1)
	if j, err := f.q.RunNow(f.ctx, "t", id); err != nil || j.ID != id || j.State != Ready {
		t.Fatalf("run: %+v, %v", j, err)
	}
	f.settle(Bury, func(s *Settlement) { s.Reason = "attempts" }, lease())
	is(Dead, 2)
	if n, err := f.q.RedriveDead(f.ctx, "t", []string{id, placeID(7<<12, "\x80even")}, 0); n != 1 || err != nil {
		t.Fatalf("redrive: %d, %v", n, err)
	}
	is(Ready, 0)
	if n := f.locators(); n != 0 {
		t.Fatalf("%d locators", n)
	}
	if held := f.settle(Done, nil, lease()); !held[0] {
		t.Fatal("the lease was lost")
	}
	f.gone("t", id)
	f.advance()
	f.clean()
}

func TestAChangedJobKeepsTheIDThatNamedItsPlace(t *testing.T) {
	f := newFixture(t)
	delay, body, low := 2*time.Hour, []byte(strings.Repeat("y", 3000)), Low
	for name, change := range map[string]func(id string) (*Job, error){
		"change": func(id string) (*Job, error) {
			return f.q.Change(f.ctx, "t", id, Change{Delay: &delay, Body: &body, Priority: &low})
		},
		"run": func(id string) (*Job, error) { return f.q.RunNow(f.ctx, "t", id) },
	} {
		id := f.pushMade("t", time.Hour, func(p *Push) { p.TTR, p.ContentType = time.Minute, "text/plain" })
		j, err := change(id)
		if err != nil || j.ID != id || j.TTR != time.Minute || j.ContentType != "text/plain" {
			t.Fatalf("%s: %+v, %v", name, j, err)
		}
		again := f.get("t", id)
		if again.ID != id || string(again.Body) != string(j.Body) || again.State != j.State || f.locators() != 1 {
			t.Fatalf("%s: %+v", name, again)
		}
		if r := f.push("t", id, 0); !r.Duplicate {
			t.Errorf("%s: pushed again", name)
		}
		if _, err := change(id); err != nil {
			t.Errorf("%s again: %v", name, err)
		}
		if err := f.q.Delete(f.ctx, "t", id); err != nil || f.locators() != 0 {
			t.Errorf("%s: delete: %v", name, err)
		}
		f.gone("t", id)
	}
	f.reserve(10)
	f.advance()
	f.clean()
}

// TestAPushOfAnIDThatNamesALivingJobIsADuplicate, and one that names none is a caller's like any other.
func TestAPushOfAnIDThatNamesALivingJobIsADuplicate(t *testing.T) {
	f := newFixture(t)
	id := f.pushMade("t", time.Hour)
	before := Push{Topic: "t", ID: "before", Delay: time.Hour}
	push := func(d OnDuplicate) Result {
		return f.q.PushBatch(f.ctx, []Push{before, {Topic: "t", ID: id, Body: []byte("new"), OnDuplicate: d, Delay: time.Hour}, {Topic: "t", ID: "behind", Delay: time.Hour}})[1]
	}
	if r := push(Keep); r.Err != nil || !r.Duplicate || r.Job.ID != id || string(r.Job.Body) != `{"made":1}` {
		t.Fatalf("keep: %+v", r)
	}
	if r := push(Refuse); !errors.Is(r.Err, ErrDuplicate) || r.Job.ID != id {
		t.Fatalf("refuse: %+v", r)
	}
	f.stats("t", 3, 0, 0, 0)
	if r := push(Replace); r.Err != nil || !r.Duplicate || r.Job.ID != id {
		t.Fatalf("replace: %+v", r)
	}
	f.stats("t", 3, 0, 0, 0)
	if j := f.get("t", id); string(j.Body) != "new" || j.ID != id {
		t.Fatalf("replaced: %+v", j)
	}
	if r := push(Keep); r.Err != nil || !r.Duplicate || string(r.Job.Body) != "new" {
		t.Fatalf("keep of the replaced one: %+v", r)
	}
	if r := f.push("u", id, time.Hour); r.Duplicate || r.Job.ID != id { // of another topic: nobody's
		t.Fatalf("another topic: %+v", r)
	}
	for _, topic := range []string{"t", "u"} {
		if n, err := f.q.DropTopic(f.ctx, topic); err != nil || n < 1 {
			t.Fatal(n, err)
		}
	}
	f.advance()
	f.clean()
}

// TestAPlaceThatIsUsedAgainIsNotTakenForTheJobThatWasThere: Redis lost everything and counts its pages anew.
func TestAPlaceThatIsUsedAgainIsNotTakenForTheJobThatWasThere(t *testing.T) {
	f := newFixture(t)
	var old, new []string
	for range 20 {
		old = append(old, f.pushMade("t", time.Hour))
	}
	lost, err := f.q.Lookup(f.ctx, []Ref{{"t", old[0]}}, "")
	if err != nil || lost[0] == nil {
		t.Fatal(lost, err)
	}
	f.s.client.FlushAll(f.ctx)
	for range 20 {
		new = append(new, f.pushMade("t", time.Hour))
	}
	for i, id := range old {
		f.gone("t", id)
		if new[i][1:11] != id[1:11] {
			t.Fatalf("%s and %s are not of one place", id, new[i])
		}
	}
	if err := f.q.Delete(f.ctx, "t", old[3]); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if r := f.push("t", old[4], time.Hour); r.Duplicate || f.get("t", old[4]).ID != old[4] {
		t.Fatalf("%+v", r)
	}
	// Brought back, the old job lives beside the one that has its place.
	for range 2 {
		if n, err := f.q.Restore(f.ctx, []Job{*lost[0]}); err != nil || n > 1 {
			t.Fatal(n, err)
		}
	}
	if j := f.get("t", old[0]); j.ID != old[0] || !j.CreatedAt.Equal(lost[0].CreatedAt) || !j.DueAt.Equal(lost[0].DueAt) {
		t.Fatalf("%+v", j)
	}
	f.stats("t", 22, 0, 0, 0)
	for _, id := range append(new, old[0], old[4]) {
		if err := f.q.Delete(f.ctx, "t", id); err != nil {
			t.Errorf("delete %s: %v", id, err)
		}
	}
	f.stats("t", 0, 0, 0, 0)
	f.advance()
	f.clean()
}

// TestAJobThatLivesIsNotBroughtBack, though it has no locator.
func TestAJobThatLivesIsNotBroughtBack(t *testing.T) {
	f := newFixture(t)
	j := f.get("t", f.pushMade("t", time.Hour))
	if n, err := f.q.Restore(f.ctx, []Job{*j}); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	f.stats("t", 1, 0, 0, 0)
}

// deafened is a fixture whose connections lose answers: of the next requests that have the mark, as many as lose says are carried out, and
// then the connection is closed in place of the answer.
func deafened(t *testing.T, mark string) (f *fixture, lose *atomic.Int32) {
	url, _ := startRedis(t)
	lose = new(atomic.Int32)
	l, err := net.Listen("unix", strings.TrimPrefix(url, "unix://")+".deaf")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", strings.TrimPrefix(url, "unix://"))
			if err != nil {
				_ = c.Close()
				continue
			}
			var deaf atomic.Bool
			wg.Go(func() {
				passOn(to, c, func(b []byte) bool {
					if strings.Contains(string(b), mark) && lose.Add(-1) >= 0 {
						deaf.Store(true)
					}
					return true
				})
			})
			wg.Go(func() { passOn(c, to, func([]byte) bool { return !deaf.Load() }) })
		}
	})
	q := Open(Options{})
	t.Cleanup(func() {
		_ = q.Close()
		_ = l.Close()
		wg.Wait()
	})
	if err := q.SetShards(t.Context(), []ShardConfig{{Name: "a", URL: url + ".deaf", State: "active"}}); err != nil {
		t.Fatal(err)
	}
	return &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards()[0]}, lose
}

// passOn copies until it may not or cannot, and closes both then.
func passOn(to, from net.Conn, may func([]byte) bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	b := make([]byte, 1<<20)
	for {
		n, err := from.Read(b)
		if err != nil || may != nil && !may(b[:n]) {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// TestAPushWhoseAnswerIsLostIsStoredOnce: made again, it has the same ids and times.
func TestAPushWhoseAnswerIsLostIsStoredOnce(t *testing.T) {
	f, lose := deafened(t, `{"made":1}`)
	near := made("t", time.Minute)
	for round := range 3 {
		lose.Store(1)
		list := []Push{made("t", time.Hour), near, {Topic: "t", ID: fmt.Sprint("mine", round), Delay: time.Hour + time.Microsecond}, made("u", 3*time.Hour), made("t", time.Hour)}
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
	receipts := func() int { return len(f.s.client.Keys(f.ctx, prefix(0)+"w:*").Val()) }
	if n := receipts(); n != 3 {
		t.Errorf("%d receipts; want those of the three calls that were made twice", n)
	}
	for range 5 {
		f.pushMade("t", time.Hour)
	}
	if n := receipts(); n != 4 {
		t.Errorf("%d receipts; want one more for calls that came one after the other", n)
	}
}

// TestACallMadeAgainWhenAJobIsNotNearAnyMore: what is near depends on where in its minute a call comes.
func TestACallMadeAgainWhenAJobIsNotNearAnyMore(t *testing.T) {
	f := newFixture(t)
	clock := func() time.Time { return f.s.client.Time(f.ctx).Val() }
	eventually(t, "the minute lasts long enough", func() bool { return clock().Second() < 59 })
	at := clock()
	p := made("t", at.Truncate(time.Minute).Add(2*time.Minute-200*time.Millisecond).Sub(at))
	args := appendPushes([]any{"receipt", "1"}, []Push{p}, f.s.smallHashes(0))
	for range 2 {
		if _, err := f.s.run(f.ctx, 0, f.s.scripts.push, args...); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the job would be far", func() bool { return clock().Sub(at) > 250*time.Millisecond })
	}
	f.stats("t", 1, 0, 0, 0)
}

// TestAJobThatNobodyKnowsIsRemoved: the push was answered with an error, and the id is known to nobody.
func TestAJobThatNobodyKnowsIsRemoved(t *testing.T) {
	f, lose := deafened(t, `{"made":1}`)
	kept := f.pushMade("t", time.Hour)
	lose.Store(2)
	var un *UnavailableError
	results := f.q.PushBatch(f.ctx, []Push{made("t", time.Hour), {Topic: "t", ID: "mine", Delay: time.Hour}, made("t", time.Hour), made("t", time.Minute)})
	for _, r := range results {
		if !errors.As(r.Err, &un) || un.Reason != "connection" {
			t.Fatalf("%+v", r)
		}
	}
	eventually(t, "what nobody knows is removed", func() bool {
		m, err := f.q.Stats(f.ctx, []string{"t"})
		return err == nil && m["t"].Delayed == 2
	})
	if j := f.get("t", kept); j.State != Delayed {
		t.Error(j)
	}
	if j := f.get("t", "mine"); j.State != Delayed { // its caller may ask for it
		t.Error(j)
	}
	r := f.push("t", "later", time.Hour)
	if r.Duplicate {
		t.Error(r)
	}
	f.pushMade("t", time.Hour)
}

// TestAJobThatNobodyKnowsIsRemovedFromAShardThatStoodStill: the push went to another shard, under another id.
func TestAJobThatNobodyKnowsIsRemovedFromAShardThatStoodStill(t *testing.T) {
	urlA, cmd := startRedis(t)
	urlB, _ := startRedis(t)
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGCONT) })
	q := Open(Options{Timeout: 300 * time.Millisecond})
	t.Cleanup(func() { _ = q.Close() })
	if err := q.SetShards(t.Context(), []ShardConfig{{"a", urlA, "active"}, {"b", urlB, "active"}}); err != nil {
		t.Fatal(err)
	}
	a, b := &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards()[0]}, &fixture{T: t, ctx: t.Context(), q: q, s: q.Shards()[1]}
	list := make([]Push, 40)
	for i := range list {
		list[i] = made("t", time.Hour)
	}
	for _, r := range q.PushBatch(t.Context(), list) { // connections and scripts are there
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	delayed := func(s *Shard) int {
		n, _ := s.client.HGet(t.Context(), prefix(0)+"nd", "t").Int()
		return n
	}
	inA, inB := delayed(a.s), delayed(b.s)
	if inA+inB != len(list) || inA < 5 || inB < 5 {
		t.Fatalf("%d and %d jobs", inA, inB)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i] = made("t", time.Hour)
	}
	ids := map[string]bool{}
	for _, r := range q.PushBatch(t.Context(), list) {
		if r.Err != nil || r.Job.Shard != "b" {
			t.Fatalf("%+v", r)
		}
		ids[r.Job.ID] = true
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what a had stored when it went on is removed", func() bool {
		return a.s.client.HGet(t.Context(), prefix(0)+"t:t", "x").Val() != "" && delayed(a.s) == inA
	})
	if n := delayed(b.s); n != inB+len(list) {
		t.Errorf("%d jobs in b, want %d", n, inB+len(list))
	}
	for id := range ids {
		if j := a.get("t", id); j.ID != id || j.Shard != "b" {
			t.Errorf("%+v", j)
		}
	}
}

// TestAnIDThatNamesAPlaceIsFoundInEveryShard, and is a duplicate wherever its job is.
func TestAnIDThatNamesAPlaceIsFoundInEveryShard(t *testing.T) {
	f, states := twoShards(t, Options{})
	states("active", "active")
	on := map[string]int{}
	for range 60 {
		id := f.pushMade("t", time.Hour)
		j := f.get("t", id)
		if on[j.Shard]++; j.ID != id {
			t.Fatalf("%+v", j)
		}
		if r := f.push("t", id, 0); !r.Duplicate || r.Job.Shard != j.Shard {
			t.Fatalf("pushed again: %+v", r)
		}
		if on[j.Shard]%2 == 0 {
			if r := f.push("t", id, time.Hour, func(p *Push) { p.OnDuplicate = Replace }); r.Err != nil || r.Job.ID != id {
				t.Fatalf("replaced: %+v", r)
			}
		}
		if err := f.q.Delete(f.ctx, "t", id); err != nil {
			t.Fatal(err)
		}
		f.gone("t", id)
	}
	if on["a"] < 10 || on["b"] < 10 {
		t.Errorf("spread %v", on)
	}
	f.stats("t", 0, 0, 0, 0)
}

// TestADrainedJobKeepsTheIDThatNamedItsPlace in the other shard, and on its way back.
func TestADrainedJobKeepsTheIDThatNamedItsPlace(t *testing.T) {
	f, states := twoShards(t, Options{})
	var before []*Job
	for i := range 5 {
		before = append(before, f.get("t", f.pushMade("t", time.Hour, func(p *Push) { p.Body = []byte(strings.Repeat("x", 500*i)) })))
	}
	for _, to := range []string{"b", "a"} {
		for _, s := range f.q.Shards() {
			if s.name != to {
				f.s = s
			}
		}
		if to == "b" {
			states("draining", "active")
		} else {
			states("active", "draining")
		}
		if n := f.drain(); n != len(before) {
			t.Fatalf("%d were moved to %s", n, to)
		}
		if left := f.s.client.Keys(f.ctx, prefix(0)+"[bpi]:*").Val(); len(left) != 0 || f.locators() != 0 {
			t.Errorf("left behind: %v", left)
		}
		for _, want := range before {
			want.Shard = to
			if got := f.get("t", want.ID); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		}
	}
}

// TestAnUnsafePushTellsTheIDThatItsJobHas, so that it can be made again and waits.
func TestAnUnsafePushTellsTheIDThatItsJobHas(t *testing.T) {
	r := startReplicated(t, time.Second)
	r.stopReplica()
	p := made("replica", time.Hour)
	res := r.q.Push(r.ctx, p)
	if !Stored(res.Err) || res.Job.ID == p.ID || !strings.Contains(res.Err.Error(), "replica/"+res.Job.ID) {
		t.Fatalf("%+v", res)
	}
	r.contReplica()
	again := r.q.Push(r.ctx, Push{Topic: "replica", ID: res.Job.ID, Delay: time.Hour})
	if again.Err != nil || !again.Duplicate || again.Job.ID != res.Job.ID {
		t.Fatalf("%+v", again)
	}
	r.stats("replica", 1, 0, 0, 0)
}

// TestANewerRecordWhoseIDNamesItsPlaceWaits, though it has no locator.
func TestANewerRecordWhoseIDNamesItsPlaceWaits(t *testing.T) {
	f := newFixture(t)
	id := f.pushMade("t", time.Hour)
	key := f.s.client.Keys(f.ctx, prefix(0)+"p:*").Val()[0]
	rec := f.s.client.LIndex(f.ctx, key, 1).Val()
	f.s.client.LSet(f.ctx, key, 1, rec[:12]+string([]byte{rec[12] | 3<<5})+rec[13:14+nonceLen]+"ÿwhat this version cannot read")
	if err := openPages(f.ctx, f.s, "t"); err != nil {
		t.Fatal(err)
	}
	if ls := f.reserve(10); len(ls) != 0 {
		t.Fatalf("reserved %+v", ls)
	}
	f.stats("t", 1, 0, 0, 0)
	if _, err := f.q.Get(f.ctx, "t", id); !errors.Is(err, ErrNewer) {
		t.Fatal(err)
	}
	if err := f.q.Delete(f.ctx, "t", id); err != nil {
		t.Fatal(err)
	}
	f.advance()
	f.clean()
}

// TestWhatIsAnsweredIsThereAndNothingElse: many push at once, and answers get lost all the time, some of them twice in a row.
func TestWhatIsAnsweredIsThereAndNothingElse(t *testing.T) {
	f, lose := deafened(t, `{"made":1}`)
	ctx, cancel := context.WithCancel(f.ctx)
	var breaking, pushing sync.WaitGroup
	breaking.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			lose.Store(int32(1 + i%4))
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Millisecond):
			}
		}
		lose.Store(0)
	})
	var mu sync.Mutex
	answered, refused := map[string]Job{}, 0
	for range 8 {
		pushing.Go(func() {
			for range 60 {
				list := make([]Push, 5)
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
						t.Errorf("%s was given twice", r.Job.ID)
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
	eventually(t, "nothing else is there", func() bool {
		m, err := f.q.Stats(f.ctx, []string{"t"})
		return err == nil && m["t"].Delayed == int64(len(answered))
	})
	for id, want := range answered {
		if j := f.get("t", id); j.ID != id || !j.CreatedAt.Equal(want.CreatedAt) || !j.DueAt.Equal(want.DueAt) {
			t.Errorf("answered %+v, is %+v", want, j)
		}
	}
}
