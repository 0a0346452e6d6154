package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// pushPlaced stores a job as earlier versions did when it had no id: under an id that encodes its place.
func (f *fixture) pushPlaced(topic string, delay time.Duration, more ...func(*Push)) string {
	f.Helper()
	p := made(topic, delay)
	for _, m := range more {
		m(&p)
	}
	r := f.q.Push(f.ctx, p)
	if r.Err != nil || r.Duplicate || r.Job.ID != p.ID {
		f.Fatalf("push: %+v", r)
	}
	for _, s := range f.q.Shards() {
		if s.name == r.Job.Shard {
			return place(f, s, topic, p.ID)
		}
	}
	f.Fatalf("there is no shard %s", r.Job.Shard)
	return ""
}

// place removes a job's locator, and the id from its record. It returns the id that encodes the place.
func place(t interface {
	Helper()
	Context() context.Context
	Fatal(...any)
}, s *Shard, topic, id string) string {
	t.Helper()
	l, ctx := locate(topic, id, s.locators), t.Context()
	key, field := string(s.smallHashes(0).appendKey(nil, l)), string(l[3:])
	ref, err := s.client.HGet(ctx, key, field).Int64()
	if err != nil {
		t.Fatal(err)
	}
	s.client.HDel(ctx, key, field)
	nonce := string([]byte{l[3]&0x3f | 0x80, l[4], l[5], l[6], l[7]})
	page, index := fmt.Sprint(prefix(0), "p:", ref>>(indexBits+2)), ref>>2&(1<<indexBits-1)
	rec := s.client.LIndex(ctx, page, index).Val()
	s.client.LSet(ctx, page, index, rec[:13]+string(rune(nonceLen))+nonce+rec[14+len(id):])
	return placeID(ref, nonce)
}

// TestADeadPlacedJobIsRecordedUnderItsID, once, even if the request has the id twice.
func TestADeadPlacedJobIsRecordedUnderItsID(t *testing.T) {
	var recorded []string
	url, _ := startRedis(t)
	f := fixtureOn(t, url, Options{Changed: func(kind ChangeKind, jobs []Job) error {
		for _, j := range jobs {
			recorded = append(recorded, string(kind)+" "+j.ID)
		}
		return nil
	}})
	id := f.pushPlaced("t", time.Hour)
	if err := openPages(f.ctx, f.s, "t"); err != nil {
		t.Fatal(err)
	}
	bury := func() { f.settle(Bury, func(s *Settlement) { s.Reason = "attempts" }, f.reserve(1)...) }
	bury()
	if n, err := f.q.RedriveDead(f.ctx, "t", []string{id, id}, 0); n != 1 || err != nil {
		t.Fatalf("redrive: %d, %v", n, err)
	}
	f.stats("t", 0, 1, 0, 0)
	bury()
	if n, err := f.q.DeleteDead(f.ctx, "t", []string{id, id}, 0); n != 1 || err != nil {
		t.Fatalf("delete: %d, %v", n, err)
	}
	f.stats("t", 0, 0, 0, 0)
	if want := []string{"redrive " + id, "drop " + id}; !slices.Equal(recorded, want) {
		t.Errorf("recorded %q, want %q", recorded, want)
	}
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
	bad := []string{"", "p", NewID(), strings.ToUpper(good), good + "0", good[1:], "q" + good[1:], good[:20] + "1",
		good[:20] + "u",
		placeID(0, nonce), placeID(4<<indexBits, nonce), placeID(4, nonce), placeID(math.MaxInt64, nonce),
		placeID(5<<12, "\x00bcde"), placeID(5<<12, "\xc0bcde")}
	for _, id := range bad {
		if got := appendPlace(nil, id); got != nil && id != good {
			t.Errorf("%q names %x", id, got)
		}
	}
}

// locators returns the number of locators.
func (f *fixture) locators() (n int64) {
	f.Helper()
	for _, key := range f.s.client.Keys(f.ctx, "*i:*").Val() {
		if f.s.client.Type(f.ctx, key).Val() == "hash" {
			n += f.s.client.HLen(f.ctx, key).Val()
		}
	}
	return n
}

func TestAPlacedJobIsFoundByItsPlace(t *testing.T) {
	f := newFixture(t)
	long := func(p *Push) {
		p.Body, p.TTR, p.MaxAttempts, p.ContentType = []byte(strings.Repeat("x", 5000)), 7*time.Second, 3, "text/plain"
	}
	id, other := f.pushPlaced("t", time.Hour, long), f.pushPlaced("t", time.Hour)
	if n := f.locators(); n != 0 {
		t.Fatalf("%d locators", n)
	}
	j := f.get("t", id)
	if j.ID != id || j.State != Delayed || len(j.Body) != 5000 || j.TTR != 7*time.Second || j.MaxAttempts != 3 ||
		j.ContentType != "text/plain" {
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

// openPages makes every unopened page of a topic due to be opened, and equally distant jobs in d:TOPIC due.
func openPages(ctx context.Context, s *Shard, topic string) error {
	if err := bringNear(ctx, s, topic); err != nil {
		return err
	}
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
	if s.client.Exists(ctx, prefix(0)+"d:"+topic, prefix(0)+"pg:"+topic).Val() > 0 {
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

func bringNear(ctx context.Context, s *Shard, topic string) error {
	now := time.Now()
	far := strconv.FormatInt(now.Add(30*time.Minute).UnixMilli(), 10)
	key := prefix(0) + "d:" + topic
	refs, err := s.client.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: far, Max: "+inf"}).Result()
	if err != nil {
		return err
	}
	due := now.UnixMilli() - 1
	for _, z := range refs {
		ref, err := strconv.ParseInt(z.Member.(string), 10, 64)
		if err != nil {
			return err
		}
		page, index := prefix(0)+fmt.Sprint("p:", ref>>2>>indexBits), ref>>2&(1<<indexBits-1)
		rec := s.client.LIndex(ctx, page, index).Val()
		if rec[:6] != string(appendUint48(nil, int64(z.Score))) {
			continue // the job waits for a retry
		}
		s.client.LSet(ctx, page, index, string(appendUint48(nil, due))+rec[6:])
		s.client.ZAdd(ctx, key, redis.Z{Score: float64(due), Member: z.Member})
	}
	return nil
}

// TestAPlacedJobGoesThroughEveryState under one id, by which it can be found in each state.
func TestAPlacedJobGoesThroughEveryState(t *testing.T) {
	f := newFixture(t)
	id := f.pushPlaced("t", time.Hour, func(p *Push) { p.Body = []byte(strings.Repeat("x", 5000)) })
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
	f.thinUpTo(0)
	delay, body, low := 2*time.Hour, []byte(strings.Repeat("y", 3000)), Low
	for name, change := range map[string]func(id string) (*Job, error){
		"change": func(id string) (*Job, error) {
			return f.q.Change(f.ctx, "t", id, Change{Delay: &delay, Body: &body, Priority: &low})
		},
		"run": func(id string) (*Job, error) { return f.q.RunNow(f.ctx, "t", id) },
	} {
		id := f.pushPlaced("t", time.Hour, func(p *Push) { p.TTR, p.ContentType = time.Minute, "text/plain" })
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

// TestAPushOfAnIDThatNamesALivingJobIsADuplicate, while a push of any other such id stores a job with that id.
func TestAPushOfAnIDThatNamesALivingJobIsADuplicate(t *testing.T) {
	f := newFixture(t)
	id := f.pushPlaced("t", time.Hour)
	before := Push{Topic: "t", ID: "before", Delay: time.Hour}
	push := func(d OnDuplicate) Result {
		return f.q.PushBatch(f.ctx, []Push{before,
			{Topic: "t", ID: id, Body: []byte("new"), OnDuplicate: d, Delay: time.Hour},
			{Topic: "t", ID: "behind", Delay: time.Hour}})[1]
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
	if r := f.push("u", id, time.Hour); r.Duplicate || r.Job.ID != id { // an id of another topic names no job
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

// TestAPlaceThatIsUsedAgainIsNotTakenForTheJobThatWasThere: Redis lost everything and numbers its pages again from the
// start.
func TestAPlaceThatIsUsedAgainIsNotTakenForTheJobThatWasThere(t *testing.T) {
	f := newFixture(t)
	var old, new []string
	for range 20 {
		old = append(old, f.pushPlaced("t", time.Hour))
	}
	lost, err := f.q.Lookup(f.ctx, []Ref{{"t", old[0]}}, "")
	if err != nil || lost[0] == nil {
		t.Fatal(lost, err)
	}
	f.flush()
	for range 20 {
		new = append(new, f.pushPlaced("t", time.Hour))
	}
	for i, id := range old {
		f.gone("t", id)
		if new[i][1:11] != id[1:11] {
			t.Fatalf("%s and %s do not name the same place", id, new[i])
		}
	}
	if err := f.q.Delete(f.ctx, "t", old[3]); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if r := f.push("t", old[4], time.Hour); r.Duplicate || f.get("t", old[4]).ID != old[4] {
		t.Fatalf("%+v", r)
	}
	// The old job is restored beside the job that has its place now.
	for range 2 {
		if effect := f.replay(lost[0]); effect != EffectStored && effect != EffectNone {
			t.Fatal(effect)
		}
	}
	if j := f.get("t", old[0]); j.ID != old[0] || !j.CreatedAt.Equal(lost[0].CreatedAt) ||
		!j.DueAt.Equal(lost[0].DueAt) {
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

// replay restores a job from a journal given by an operator.
func (f *fixture) replay(j *Job) Effect {
	f.Helper()
	effects, err := f.s.Replay(f.ctx, 0, ReplayByHand, "", false,
		[]Entry{{Kind: EntryStored, Revision: j.Revision, Job: *j}})
	if err != nil || len(effects) != 1 {
		f.Fatal(effects, err)
	}
	return effects[0]
}

// TestAJobThatExistsIsNotStoredTwice although it has no locator.
func TestAJobThatExistsIsNotStoredTwice(t *testing.T) {
	f := newFixture(t)
	j := f.get("t", f.pushPlaced("t", time.Hour))
	if effect := f.replay(j); effect == EffectStored {
		t.Fatal(effect)
	}
	f.stats("t", 1, 0, 0, 0)
}

// TestAPlacedJobIsFoundInEveryShard, and is a duplicate whichever shard holds it.
func TestAPlacedJobIsFoundInEveryShard(t *testing.T) {
	f, states := twoShards(t, Options{})
	states("active", "active")
	on := map[string]int{}
	for range 60 {
		id := f.pushPlaced("t", time.Hour)
		j := f.get("t", id)
		if on[j.Shard]++; j.ID != id {
			t.Fatalf("%+v", j)
		}
		if r := f.push("t", id, 0); !r.Duplicate || r.Job.Shard != j.Shard {
			t.Fatalf("pushed again: %+v", r)
		}
		if on[j.Shard]%2 == 0 {
			if r := f.push("t", id, time.Hour, func(p *Push) { p.OnDuplicate = Replace }); r.Err != nil ||
				r.Job.ID != id {
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

// TestADrainedJobKeepsTheIDThatNamedItsPlace in the other shard, and after it is moved back.
func TestADrainedJobKeepsTheIDThatNamedItsPlace(t *testing.T) {
	f, states := twoShards(t, Options{})
	var before []*Job
	for i := range 5 {
		before = append(before, f.get("t", f.pushPlaced("t", time.Hour,
			func(p *Push) { p.Body = []byte(strings.Repeat("x", 500*i)) })))
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
			want.ETag = f.get("t", want.ID).ETag // the record has another place
			if got := f.get("t", want.ID); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		}
	}
}
