package store_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// keyModel drives operations on jobs with keys at random, and checks what they keep after each of them.
type keyModel struct {
	f      *fixture
	limit  int
	leases map[string]*store.Lease // of the running jobs, by id
	byID   map[string]bool         // those of them that were taken by their ids
	ran    map[string]bool         // jobs that were run by their ids: a ready one only gets another revision
	n      int
}

func (m *keyModel) id(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(1, 9).Draw(t, "id")) }

func (m *keyModel) Push(t *rapid.T) {
	now := time.Now().Truncate(time.Millisecond)
	for range rapid.IntRange(1, 3).Draw(t, "pushes") {
		id := m.id(t)
		p := store.Push{
			Topic: "t", ID: id, Priority: store.Priority(rapid.IntRange(0, 2).Draw(t, "priority")),
			Key:         rapid.SampledFrom([]string{"", "k", "k", "l /1"}).Draw(t, "key"),
			OnDuplicate: store.OnDuplicate(rapid.IntRange(0, 1).Draw(t, "on duplicate")),
			DueAt: now.Add(rapid.SampledFrom([]time.Duration{-time.Second, 0, time.Hour, 2 * time.Hour}).
				Draw(t, "due")),
			Group: rapid.SampledFrom([]string{"", "", "g"}).Draw(t, "group"),
			Order: orderFor(t),
		}
		r := m.f.q.Push(t.Context(), p)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if r.Duplicate && p.OnDuplicate == store.Replace {
			m.ended(id)
		}
	}
}

func (m *keyModel) ended(id string) {
	delete(m.leases, id)
	delete(m.byID, id)
}

func (m *keyModel) Reserve(t *rapid.T) { m.reserve(t, rapid.IntRange(1, 3).Draw(t, "max")) }

func (m *keyModel) reserve(t *rapid.T, n int) []*store.Job {
	m.n++
	got, err := m.f.b.Reserve(t.Context(), store.Reserve{
		Worker: "w", Token: fmt.Sprint("m", m.n), Max: n, Pattern: "0102010201",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range got.Jobs {
		m.leases[j.ID] = j.Lease
	}
	return got.Jobs
}

func (m *keyModel) TakeByID(t *rapid.T) {
	id := m.id(t)
	if j, err := m.f.q.TakeByID(t.Context(), "t", id); err == nil {
		m.leases[id], m.byID[id] = j.Lease, true
	}
}

func (m *keyModel) Settle(t *rapid.T) {
	for _, id := range slices.Sorted(maps.Keys(m.leases)) {
		if !rapid.Bool().Draw(t, "settle") {
			continue
		}
		x := store.End{Lease: m.leases[id], Verb: rapid.SampledFrom(allVerbs).Draw(t, "verdict"), Reason: "why",
			AtHead: true, Endpoint: store.EndpointUp}
		if x.Verb == store.Retry || x.Verb == store.Snooze {
			x.Delay = rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "delay")
		}
		if x.Verb != store.Release && x.Verb != store.Expire {
			x.Attempt = &store.Attempt{Status: 200, StartedAt: time.Now().UnixMilli()}
		}
		if _, err := m.f.b.End(t.Context(), []store.End{x}); err != nil {
			t.Fatal(err)
		}
		m.ended(id)
	}
}

func (m *keyModel) Delete(t *rapid.T) {
	id := m.id(t)
	if _, err := m.f.b.Remove(t.Context(), "t", id, nil, store.Memory); err != nil {
		t.Fatal(err)
	}
	m.ended(id)
}

func (m *keyModel) Change(t *rapid.T) {
	c := store.Change{Priority: new(store.Priority(rapid.IntRange(0, 2).Draw(t, "priority")))}
	if rapid.Bool().Draw(t, "delay") {
		c.Delay = new(rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(t, "delay"))
	}
	_, _ = m.f.q.Change(t.Context(), "t", m.id(t), c) // it may not exist, or run
}

func (m *keyModel) Run(t *rapid.T) {
	id := m.id(t)
	_, _ = m.f.q.RunNow(t.Context(), "t", id, nil) // it may not exist
	m.ran[id] = true
}

func (m *keyModel) Group(t *rapid.T) {
	if rapid.Bool().Draw(t, "move") {
		_, _, err := m.f.q.MoveGroup(t.Context(), "g", []string{"*"}, queue.Move{Delay: new(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := m.f.q.CancelGroup(t.Context(), "g", []string{"*"}, 0); err != nil {
		t.Fatal(err)
	}
}

func (m *keyModel) Redrive(t *rapid.T) {
	if _, err := m.f.q.EndDead(t.Context(), store.DeadCall{Kind: store.Redriven, Topic: "t", Limit: 10}); err != nil {
		t.Fatal(err)
	}
}

// Damage makes the record of a job unreadable, which is pushed anew.
func (m *keyModel) Damage(t *rapid.T) {
	id := m.id(t)
	job, err := m.f.q.Get(t.Context(), "t", id)
	if err != nil {
		return
	}
	m.f.s.Redis().HSet(t.Context(), store.Prefix(0)+"j:t", id, "\xfe\x01?and so on")
	m.f.advance()
	m.reserve(t, 10) // sets it aside if it can be reserved
	m.f.push("t", id, 0, withKey(job.Key), func(p *store.Push) { p.OnDuplicate = store.Replace })
	m.ended(id)
}

// placed is a job's place in its key.
type placed struct {
	id    string
	score float64
	job   store.Record
}

func (a placed) before(b placed) bool {
	if x, y := math.Floor(a.score/1000), math.Floor(b.score/1000); x != y {
		return x < y
	}
	return a.job.RevisionForTest() < b.job.RevisionForTest()
}

func (m *keyModel) Check(t *rapid.T) {
	checkConsistency(t, m.f.s)
	for _, key := range []string{"k", "l /1"} {
		m.checkKey(t, store.Escape(key))
	}
}

// checkKey checks that the admitted jobs of a key are as many as allowed, and its first.
func (m *keyModel) checkKey(t *rapid.T, key string) {
	var held, admitted []placed
	runs, byID := 0, 0
	for _, z := range m.f.s.Redis().ZRangeWithScores(t.Context(), store.Prefix(0)+"k:t/"+key, 0, -1).Val() {
		id := z.Member.(string)
		job, err := store.ParseRecord(m.f.s.Redis().HGet(t.Context(), store.Prefix(0)+"j:t", id).Val())
		if err != nil {
			t.Fatal(err)
		}
		p := placed{id, math.Abs(z.Score), job}
		switch {
		case z.Score > 0:
			held = append(held, p)
		case job.StateForTest() == "running":
			runs++
			if m.byID[id] {
				byID++
			}
		default:
			admitted = append(admitted, p)
		}
	}
	if n := runs + len(admitted); n-byID > m.limit || len(held) > 0 && n < m.limit {
		t.Fatalf("%s: %d run, %d are admitted, %d are held", key, runs, len(admitted), len(held))
	}
	for _, a := range admitted {
		for _, h := range held {
			if h.before(a) && (math.Floor(h.score/1000) < math.Floor(a.score/1000) || !m.ran[h.id] && !m.ran[a.id]) {
				t.Fatalf("%s: %+v is admitted, and %+v is held", key, a, h)
			}
		}
	}
}

// drain makes all jobs due and delivers them: none may be stuck.
func (m *keyModel) drain(t *rapid.T) {
	for _, id := range slices.Sorted(maps.Keys(m.leases)) {
		x := store.End{Lease: m.leases[id], Verb: store.Done, Attempt: &store.Attempt{Status: 200}}
		if _, err := m.f.b.End(t.Context(), []store.End{x}); err != nil {
			t.Fatal(err)
		}
	}
	for id := range 10 {
		_, _ = m.f.q.RunNow(t.Context(), "t", fmt.Sprint(id), nil) // it may not exist
	}
	if _, err := m.f.q.CancelGroup(t.Context(), "g", []string{"*"}, 0); err != nil { // it may have had damaged jobs
		t.Fatal(err)
	}
	for range 40 {
		m.f.advance()
		for _, j := range m.reserve(t, 10) {
			x := store.End{Lease: j.Lease, Verb: store.Done, Attempt: &store.Attempt{Status: 200}}
			if _, err := m.f.b.End(t.Context(), []store.End{x}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := m.f.s.Redis().HLen(t.Context(), store.Prefix(0)+"j:t").Val(); n > 0 {
		t.Fatalf("%d jobs are stuck", n)
	}
}

func TestKeysMatchTheModel(t *testing.T) {
	f := newFixture(t)
	rapid.Check(t, func(rt *rapid.T) {
		f.flush()
		m := &keyModel{f: f, limit: rapid.IntRange(1, 2).Draw(rt, "limit"), leases: map[string]*store.Lease{},
			byID: map[string]bool{}, ran: map[string]bool{}}
		f.perKey("t", func(c *store.TopicConf) {
			c.Key = store.KeyConf{MaxInFlight: m.limit, SkipRetrying: rapid.Bool().Draw(rt, "skip")}
		})
		rt.Repeat(map[string]func(*rapid.T){
			"push": m.Push, "reserve": m.Reserve, "take by id": m.TakeByID, "settle": m.Settle, "delete": m.Delete,
			"change": m.Change, "run": m.Run, "group": m.Group, "redrive": m.Redrive, "damage": m.Damage,
			"advance": func(*rapid.T) { f.advance() }, "": m.Check,
		})
		m.drain(rt)
		f.clean()
		if t.Failed() {
			rt.Fatal("something was left behind")
		}
	})
}
