package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// modelJob is the expected state of a job.
type modelJob struct {
	state    store.State
	body     string
	priority store.Priority
	order    *uint32
	attempts int
	lease    *store.Lease
	far      bool // due in an hour or more
	group    string
	trace    string
	ends     bool // its group was cancelled while it ran
}

// model drives the queue's operations at random against a map, on a real Redis. Times are now, in 50 seconds, which is
// longer than a run may take, or in an hour.
type model struct {
	ends time.Time // of the run
	q    *queue.Queue
	s    *store.Shard
	jobs map[string]*modelJob // by "topic/id"
	done map[string]string    // bodies of finished jobs; nil: none are remembered, else those of b are duplicates
	shut map[string]bool      // topics for which the group is closed
	made []string             // all ids that were given to jobs, also of deleted ones
	n    int

	schedules map[string]*modelSchedule
}

func (m *model) key(t *rapid.T) (topic, id string) {
	return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic"),
		rapid.SampledFrom(append([]string{"1", "2", "3", "4", "é"}, m.made...)).Draw(t, "id")
}

func (m *model) Push(t *rapid.T) {
	topic, id := m.key(t)
	m.n++
	p := store.Push{
		Topic: topic, ID: id, Priority: store.Priority(rapid.IntRange(0, 2).Draw(t, "priority")),
		Body:        fmt.Appendf(nil, "%d", m.n),
		OnDuplicate: store.OnDuplicate(rapid.IntRange(0, 2).Draw(t, "on duplicate")),
		Order:       orderFor(t),
		Group:       rapid.SampledFrom([]string{"", "", "the group"}).Draw(t, "group"),
		Traceparent: rapid.SampledFrom([]string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}).
			Draw(t, "trace"),
	}
	if rapid.Bool().Draw(t, "long") {
		p.Body = append(p.Body, make([]byte, store.LongBody)...)
	}
	state := store.Ready
	if rapid.Bool().Draw(t, "delayed") {
		state = store.Delayed
		p.Delay = rapid.SampledFrom([]time.Duration{50 * time.Second, time.Hour}).Draw(t, "delay")
	}
	r := m.q.Push(t.Context(), p)
	old := m.jobs[topic+"/"+id]
	if p.Group != "" && m.shut[topic] {
		if !errors.Is(r.Err, store.ErrClosed) {
			t.Fatalf("push into the closed group: %v", r.Err)
		}
		return
	}
	if old == nil && p.OnDuplicate != store.Replace && m.isDone(topic, id) {
		if r.Job.State != store.Finished || r.Duplicate != (p.OnDuplicate == store.Keep) || r.Duplicate != (r.Err == nil) {
			t.Fatalf("push of a finished id = %+v", r)
		}
		return
	}
	delete(m.done, topic+"/"+id)
	switch {
	case old != nil && p.OnDuplicate == store.Refuse:
		if !errors.Is(r.Err, store.ErrDuplicate) {
			t.Fatalf("push of an existing id: %v", r.Err)
		}
		return
	case r.Err != nil:
		t.Fatal(r.Err)
	case r.Duplicate != (old != nil):
		t.Fatalf("duplicate = %v; it existed: %v", r.Duplicate, old != nil)
	case old != nil && p.OnDuplicate == store.Keep:
		if r.Job.State != old.state || string(r.Job.Body) != old.body {
			t.Fatalf("kept %+v; want %+v", r.Job, old)
		}
		return
	}
	m.jobs[topic+"/"+id] = &modelJob{state: state, body: string(p.Body), priority: p.Priority,
		order: p.Order, far: p.Delay == time.Hour, group: p.Group, trace: p.Traceparent}
}

// orderFor draws the order of a job: a few, so that some are equal, or none.
func orderFor(t *rapid.T) *uint32 {
	n := rapid.SampledFrom([]int64{-1, 0, 1, 1 << 31, 1<<32 - 1}).Draw(t, "order")
	if n < 0 {
		return nil
	}
	return new(uint32(n))
}

// isDone reports whether a push of the id is a duplicate of a finished job.
func (m *model) isDone(topic, id string) bool {
	_, done := m.done[topic+"/"+id]
	return done && topic == "b"
}

// PushMade pushes jobs without ids, and among them one with an id that may exist.
func (m *model) PushMade(t *rapid.T) {
	topic, id := m.key(t)
	m.n++
	list := []store.Push{made(topic, time.Hour), {Topic: topic, ID: id, Delay: time.Hour, OnDuplicate: store.Keep},
		made(topic, time.Hour), made(topic, 0), made(topic, 50*time.Second)}
	old := m.jobs[topic+"/"+id]
	for i := range list {
		p := &list[i]
		p.Body, p.Priority = fmt.Appendf(nil, "%d.%d", m.n, i), store.Priority(rapid.IntRange(0, 2).Draw(t, "priority"))
		p.Order = orderFor(t)
	}
	for i, r := range m.q.PushBatch(t.Context(), list) {
		p, state := &list[i], store.Delayed
		exists := old != nil || m.isDone(topic, id)
		if r.Err != nil || r.Duplicate != (i == 1 && exists) || r.Job.Topic != topic {
			t.Fatalf("push %d: %+v", i, r)
		}
		if r.Duplicate {
			continue
		}
		delete(m.done, topic+"/"+r.Job.ID)
		if p.Delay == 0 {
			state = store.Ready
		}
		id := r.Job.ID
		key := topic + "/" + id
		if m.jobs[key] != nil {
			t.Fatalf("%s already exists", key)
		}
		m.jobs[key] = &modelJob{state: state, body: string(p.Body), priority: p.Priority, order: p.Order,
			far: p.Delay == time.Hour}
		if p.Fresh && len(m.made) < 8 {
			m.made = append(m.made, id)
		}
	}
}

// Open makes jobs far ahead due.
func (m *model) Open(t *rapid.T) {
	topic := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic")
	if err := bringNear(t.Context(), m.s, topic); err != nil {
		t.Fatal(err)
	}
	for k, j := range m.jobs {
		if k[:1] == topic && j.far {
			j.state, j.far = store.Ready, false
		}
	}
}

func (m *model) Delete(t *rapid.T) {
	topic, id := m.key(t)
	r, err := m.s.BucketOf(topic).Remove(t.Context(), topic, id, nil, store.Memory)
	if err != nil || (r.Job != nil) != (m.jobs[topic+"/"+id] != nil) {
		t.Fatalf("delete = %+v, %v", r, err)
	}
	delete(m.jobs, topic+"/"+id)
}

func (m *model) Change(t *rapid.T) {
	topic, id := m.key(t)
	body, delay, priority := []byte("changed"), 2*time.Hour, store.Priority(rapid.IntRange(0, 2).Draw(t, "priority"))
	c := store.Change{Priority: &priority}
	if rapid.Bool().Draw(t, "body") {
		c.Body = &body
	}
	if rapid.Bool().Draw(t, "delay") {
		c.Delay = &delay
	}
	_, err := m.q.Change(t.Context(), topic, id, c)
	j := m.jobs[topic+"/"+id]
	want := error(nil)
	switch {
	case j == nil:
		want = store.ErrNotFound
	case j.state == store.Running:
		want = store.ErrRunning
	case j.state == store.Dead:
		want = store.ErrDead
	}
	if !errors.Is(err, want) {
		t.Fatalf("change = %v; want %v", err, want)
	}
	if want != nil {
		return
	}
	j.priority = priority
	if c.Body != nil {
		j.body = "changed"
	}
	if c.Delay != nil {
		j.state, j.far = store.Delayed, true
	}
}

func (m *model) Run(t *rapid.T) {
	topic, id := m.key(t)
	_, err := m.q.RunNow(t.Context(), topic, id, nil)
	j := m.jobs[topic+"/"+id]
	if (j == nil) != errors.Is(err, store.ErrNotFound) {
		t.Fatalf("run = %v", err)
	}
	if j == nil {
		return
	}
	if m.isShut(topic, j) {
		if !errors.Is(err, store.ErrClosed) {
			t.Fatalf("run in the closed group = %v", err)
		}
		return
	}
	if j.state == store.Dead {
		j.attempts = 0
	}
	if j.state != store.Running {
		j.state, j.far = store.Ready, false
	}
}

// isShut reports whether a job is in the group while that is closed.
func (m *model) isShut(topic string, j *modelJob) bool { return j.group != "" && m.shut[topic] }

// Cancel cancels the group, and sometimes closes it, for one topic or both.
func (m *model) Cancel(t *rapid.T) {
	topics := rapid.SampledFrom([][]string{{"a"}, {"b*"}, {"*"}}).Draw(t, "topics")
	long := rapid.SampledFrom([]time.Duration{0, 0, 0, time.Hour}).Draw(t, "close")
	c, err := m.q.CancelGroup(t.Context(), "the group", topics, long)
	for _, topic := range []string{"a", "b"} {
		m.shut[topic] = m.shut[topic] || long > 0 && (topics[0] == "*" || topics[0][:1] == topic)
	}
	for k, j := range m.jobs {
		if j.group == "" || topics[0] != "*" && topics[0][:1] != k[:1] {
			continue
		}
		if j.state == store.Running {
			j.ends = true
			c.Running--
			continue
		}
		c.Deleted--
		delete(m.jobs, k)
	}
	if err != nil || c.Deleted != 0 || c.Running != 0 {
		t.Fatalf("cancelled %+v more than expected, %v", c, err)
	}
}

func (m *model) Reserve(t *rapid.T) {
	m.n++
	got, err := m.s.Buckets()[0].Reserve(t.Context(), store.Reserve{
		Worker: "w", Token: fmt.Sprint(m.n), Max: rapid.IntRange(1, 4).Draw(t, "max"), Pattern: "0102010201",
	})
	if err != nil {
		t.Fatal(err)
	}
	ready := 0
	for _, j := range m.jobs {
		if j.state == store.Ready {
			ready++
		}
	}
	if len(got.Jobs) == 0 && ready > 0 {
		t.Fatalf("nothing reserved of %d ready jobs", ready)
	}
	m.checkOrder(t, got.Jobs)
	for _, l := range got.Jobs {
		j := m.jobs[l.Topic+"/"+l.ID]
		if j == nil || j.state != store.Ready || j.body != string(l.Body) || j.priority != l.Priority ||
			j.attempts != l.Attempts {
			t.Fatalf("reserved %+v; want %+v", l, j)
		}
		j.state, j.lease = store.Running, l.Lease
	}
}

// Return ends leases as workers do, with another priority and order.
func (m *model) Return(t *rapid.T) {
	for _, k := range slices.Sorted(maps.Keys(m.jobs)) {
		j := m.jobs[k]
		if j.state != store.Running || !rapid.Bool().Draw(t, "return") {
			continue
		}
		e := store.End{Lease: j.lease, Verb: store.Release, Order: orderFor(t),
			Priority: store.Priority(rapid.IntRange(0, 2).Draw(t, "priority"))}
		j.state = store.Ready
		if rapid.Bool().Draw(t, "bury") {
			e.Verb, j.state = store.Bury, store.Dead
			j.attempts++
		}
		if e.Order != nil {
			j.order, j.priority = e.Order, e.Priority
		}
		if j.ends {
			j.state = ""
			delete(m.jobs, k)
		}
		if d := m.q.End(t.Context(), []store.End{e})[0]; d.Err != nil || d.State != j.state {
			t.Fatalf("%s of %s: %s, %v; want %s", e.Verb, k, d.State, d.Err, j.state)
		}
	}
}

func (m *model) TakeByID(t *rapid.T) {
	topic, id := m.key(t)
	l, err := m.q.TakeByID(t.Context(), topic, id)
	j := m.jobs[topic+"/"+id]
	if j == nil || j.state == store.Running {
		if !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("took %+v, %v; want %+v", l, err, j)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if j.state == store.Dead {
		j.attempts = 0
	}
	if l.ID != id || j.body != string(l.Body) || j.priority != l.Priority || j.attempts != l.Attempts {
		t.Fatalf("took %+v; want %+v", l, j)
	}
	j.state, j.far, j.lease = store.Running, false, l.Lease
}

func (m *model) Settle(t *rapid.T) {
	var st []store.End
	for _, k := range slices.Sorted(maps.Keys(m.jobs)) {
		j := m.jobs[k]
		if j.state != store.Running || !rapid.Bool().Draw(t, "settle") {
			continue
		}
		v := rapid.SampledFrom(allVerbs).Draw(t, "verdict")
		x := store.End{Lease: j.lease, Verb: v, Reason: "why", Endpoint: store.EndpointUp, AtHead: true}
		if v == store.Retry || v == store.Snooze {
			x.Delay = time.Hour
		}
		if v != store.Release && v != store.Expire {
			x.Attempt = &store.Attempt{Status: 200, StartedAt: time.Now().UnixMilli()}
		}
		st = append(st, x)
		m.settled(k, v)
	}
	for repeat := range 2 { // the second call finds the leases ended and changes nothing
		ended, err := m.s.Buckets()[0].End(t.Context(), st)
		if err != nil || len(ended) != len(st) || slices.Contains(held(ended), repeat > 0) {
			t.Fatalf("settle %d of %d = %v, %v", repeat, len(st), ended, err)
		}
	}
}

func (m *model) settled(k string, v store.Verb) {
	j := m.jobs[k]
	if j.ends && v != store.Done {
		delete(m.jobs, k)
		return
	}
	switch v {
	case store.Done:
		delete(m.jobs, k)
		if m.done != nil {
			m.done[k] = j.body
		}
	case store.Release:
		j.state = store.Ready
	case store.Expire:
		j.state = store.Dead
	case store.Snooze:
		j.state = store.Delayed
	case store.Retry:
		j.state = store.Delayed
		j.attempts++
	case store.Bury:
		j.state = store.Dead
		j.attempts++
	}
}

func (m *model) Dead(t *rapid.T) {
	topic := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic")
	kind, redrive := store.DeadDeleted, rapid.Bool().Draw(t, "redrive")
	if redrive {
		kind = store.Redriven
	}
	n, err := m.q.EndDead(t.Context(), store.DeadCall{Kind: kind, Topic: topic, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for k, j := range m.jobs {
		if k[:1] != topic || j.state != store.Dead || redrive && m.isShut(topic, j) {
			continue
		}
		n--
		if redrive {
			j.state, j.attempts = store.Ready, 0
		} else {
			delete(m.jobs, k)
		}
	}
	if n != 0 {
		t.Fatalf("%d more dead jobs than expected", n)
	}
}

func (m *model) Advance(t *rapid.T) {
	if _, err := m.s.Buckets()[0].Advance(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestTheQueueMatchesTheModel(t *testing.T) {
	checkAgainstModel(t, newFixture(t), false)
}

func TestTheQueueMatchesTheModelWithListsOfMinutes(t *testing.T) {
	f := newFixture(t)
	f.listEarly()
	checkAgainstModel(t, f, false)
}

func TestTheQueueMatchesTheModelWithFinishedJobs(t *testing.T) {
	checkAgainstModel(t, newFixture(t), true)
}

func checkAgainstModel(t *testing.T, f *fixture, remembers bool) {
	q, s := f.q, f.s
	rapid.Check(t, func(rt *rapid.T) {
		f.flush()
		m := &model{q: q, s: s, jobs: map[string]*modelJob{}, shut: map[string]bool{},
			schedules: map[string]*modelSchedule{}, ends: time.Now().Add(40 * time.Second)}
		var last, hour time.Duration
		if remembers {
			m.done = map[string]string{}
			last, hour = store.RememberLast, time.Hour
		}
		f.lasting("a", last, time.Hour) // no lease expires
		f.lasting("b", hour, time.Hour)
		rt.Repeat(map[string]func(*rapid.T){
			"push": m.Push, "push made": m.PushMade, "open": m.Open, "delete": m.Delete, "change": m.Change,
			"run": m.Run, "reserve": m.Reserve, "take by id": m.TakeByID, "settle": m.Settle, "return": m.Return,
			"dead": m.Dead, "cancel": m.Cancel, "advance": m.Advance, "place": m.Place, "fire": m.Fire,
			"": m.Check,
		})
		m.removeSchedules(rt)
		for _, topic := range []string{"a", "b"} {
			if _, err := q.DropTopic(rt.Context(), topic); err != nil {
				rt.Fatal(err)
			}
		}
		b := s.Buckets()[0] // the group is closed for an hour
		s.Redis().Del(rt.Context(), b.Key("closed"), b.Key("x:"+store.Escape("the group")))
		f.forgetAll()
		f.clean()
		if t.Failed() {
			rt.Fatal("something was left behind")
		}
	})
}
