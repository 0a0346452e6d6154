package queue

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func longText(id string) []byte { return []byte(`"` + id + strings.Repeat("x", longBody) + `"`) }

// A call settles jobs of several topics, pages and tokens with all verdicts, in any order: each job gets its own verdict, and the answers stand where the
// settlements stood, those about lost leases and about one that is there twice, too.
func TestEachOfManySettlementsGetsItsVerdictAndItsAnswer(t *testing.T) {
	f := newFixture(t)
	topics := []string{"a", "b", "c"}
	for i := range 96 {
		f.push(topics[i%3], fmt.Sprint(i), 0, func(p *Push) {
			if p.Priority = Priority(i % 2); i%5 == 0 {
				p.Body = longText(p.ID)
			}
		})
	}
	var st []Settlement
	for len(st) < 96 {
		for _, l := range f.reserve(20) {
			x := Settlement{Lease: l, Verdict: Verdict(len(st) % 6), Delay: time.Hour, Reason: l.ID, Endpoint: Endpoint(len(st) % 3)}
			if x.Verdict != Release && x.Verdict != Expire {
				x.Attempt = &Attempt{StartedAt: 1, Error: l.ID}
			}
			st = append(st, x)
		}
	}
	rand.Shuffle(len(st), func(i, j int) { st[i], st[j] = st[j], st[i] })
	held := make([]bool, len(st))
	for i := range st {
		if held[i] = i%7 != 0; !held[i] {
			other := *st[i].Lease
			other.Token += "x"
			st[i].Lease = &other
		}
	}
	got, err := f.s.Settle(f.ctx, 0, append(st, st[1]))
	if err != nil {
		t.Fatal(err)
	}
	if got[1] == got[len(st)] {
		t.Errorf("a lease that is there twice: held %v and %v", got[1], got[len(st)])
	}
	got[1] = true
	for i := range st {
		if got[i] != held[i] {
			t.Errorf("settlement %d: held = %v", i, got[i])
		}
		f.settled(&st[i], held[i])
	}
	for _, topic := range topics {
		f.totals(topic)
	}
	again, err := f.s.Settle(f.ctx, 0, st)
	for i, h := range again {
		if h || err != nil {
			t.Errorf("settlement %d of the repeated call: held = %v, %v", i, h, err)
		}
	}
}

// settled checks what became of a job.
func (f *fixture) settled(x *Settlement, held bool) {
	f.Helper()
	l := x.Lease
	if x.Verdict == Done && held {
		f.gone(l.Topic, l.ID)
		return
	}
	want, reason, history := Running, "", 0
	if held {
		want = map[Verdict]State{Retry: Delayed, Snooze: Delayed, Bury: Dead, Expire: Dead, Release: Ready}[x.Verdict]
		if x.Attempt != nil {
			history = 1
		}
		if x.Verdict != Release {
			reason = x.Reason
		}
	}
	j := f.get(l.Topic, l.ID)
	if j.State != want || string(j.Body) != string(l.Body) || j.DeadReason != reason || len(j.History) != history || history == 1 && j.History[0].Error != l.ID {
		f.Errorf("%s/%s after verdict %d (held %v) is %s, dead for %q, after %+v", l.Topic, l.ID, x.Verdict, held, j.State, j.DeadReason, j.History)
	}
}
