package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/wakecall/wakecall/internal/observe"
	"github.com/wakecall/wakecall/internal/store"
)

// Check compares what the queue shows with the model, after each operation.
func (m *model) Check(t *rapid.T) {
	if time.Now().After(m.ends) {
		t.Skip("the machine is too busy: delayed jobs have become due")
	}
	checkConsistency(t, m.s)
	stats, err := observe.Figures{Queue: m.q}.Totals(t.Context(), []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]store.Stats{"a": {}, "b": {}}
	for k, j := range m.jobs {
		w := want[k[:1]]
		switch j.state {
		case store.Delayed:
			w.Delayed++
		case store.Ready:
			w.Ready++
			if j.priority == store.High {
				w.High++
			}
		case store.Running:
			w.Running++
		case store.Dead:
			w.Dead++
		}
		want[k[:1]] = w
		got, err := m.q.Get(t.Context(), k[:1], k[2:])
		if err != nil || got.State != j.state || got.Attempts != j.attempts || string(got.Body) != j.body ||
			got.Priority != j.priority || got.Group != j.group || got.Traceparent != j.trace ||
			!reflect.DeepEqual(got.Order, j.order) {
			t.Fatalf("get %s = %s, %d attempts, priority %v, %.20q, %v; want %+v", k, got.State, got.Attempts,
				got.Priority, got.Body, err, j)
		}
	}
	m.checkDone(t)
	m.checkGroup(t)
	m.checkSchedules(t)
	for topic, w := range want {
		balances(t, topic, stats[topic])
		g := stats[topic].Stats
		g.OldestReady = 0
		if g != w {
			t.Fatalf("stats of %s = %+v; want %+v", topic, g, w)
		}
		for _, state := range []store.State{store.Delayed, store.Ready, store.Running, store.Dead} {
			jobs, _, err := m.q.List(t.Context(), topic, state, "", 100)
			if err != nil {
				t.Fatal(err)
			}
			n := map[store.State]int64{store.Delayed: w.Delayed, store.Ready: w.Ready, store.Running: w.Running, store.Dead: w.Dead}[state]
			if int64(len(jobs)) != n {
				t.Fatalf("%d %s jobs of %s listed; want %d", len(jobs), state, topic, n)
			}
		}
	}
}

// checkGroup checks that the group has its live jobs and no others.
func (m *model) checkGroup(t *rapid.T) {
	var want []string
	for k, j := range m.jobs {
		if j.group != "" {
			want = append(want, k)
		}
	}
	b := m.s.Buckets()[0]
	got, err := m.s.Redis().HKeys(t.Context(), b.Key("g:"+store.Escape("the group"))).Result()
	slices.Sort(got)
	if slices.Sort(want); err != nil || !slices.Equal(got, want) {
		t.Fatalf("the group has %q, %v; want %q", got, err, want)
	}
}

func (m *model) checkDone(t *rapid.T) {
	for k, body := range m.done {
		if m.jobs[k] != nil {
			continue
		}
		j, err := m.q.Get(t.Context(), k[:1], k[2:], store.Finished)
		if err != nil || j.State != store.Finished || j.ID != k[2:] || j.BodyGone != (len(body) > store.LongBody) ||
			!j.BodyGone && string(j.Body) != body {
			t.Fatalf("get of the finished %s = %+v, %v", k, j, err)
		}
	}
}

// checkOrder checks that the reserved jobs of each topic with an order are its first, and that others follow when it
// has no more of them.
func (m *model) checkOrder(t *rapid.T, reserved []*store.Job) {
	for _, topic := range []string{"a", "b"} {
		var want, got []string
		for k, j := range m.jobs {
			if k[:1] == topic && j.state == store.Ready && j.order != nil {
				want = append(want, fmt.Sprintf("%010d %s", *j.order, seat(k[2:])))
			}
		}
		slices.Sort(want)
		others := false
		for _, l := range reserved {
			if l.Topic == topic && l.Order != nil {
				got = append(got, fmt.Sprintf("%010d %s", *l.Order, seat(l.ID)))
			}
			others = others || l.Topic == topic && l.Order == nil
		}
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) || others && len(got) < len(want) {
			t.Fatalf("reserved %v of %s, and others: %v; want the first of %v", got, topic, others, want)
		}
	}
}

// seat is the member of the sorted set o of a job.
func seat(id string) string {
	if n, err := strconv.ParseUint(id, 10, 64); err == nil {
		return fmt.Sprintf("%020d%s", n, id)
	}
	return strings.Repeat("9", 20) + id
}
