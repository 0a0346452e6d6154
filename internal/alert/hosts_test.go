package alert

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wakecall/wakecall/internal/message"
)

// hosts are hosts that share a store, on a clock that the test moves.
type hosts struct {
	list  []*day
	links []*away
}

func newHosts(t *testing.T, n int, to string) *hosts {
	h, store := &hosts{}, newMemory()
	for range n {
		d, link := newDay(t, to), &away{Storage: store}
		d.opts.Store, d.opts.Host = link, string(rune('a'+len(h.list)))
		d.happens = func(time.Duration) []Finding { return nil }
		h.list, h.links = append(h.list, d), append(h.links, link)
	}
	return h
}

// pass makes rounds of all hosts that are up.
func (h *hosts) pass(t *testing.T, span time.Duration, up ...int) {
	t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(defaultEvery) {
		for _, i := range up {
			h.list[i].round(t.Context())
		}
	}
}

// wrong sets what hosts find.
func (h *hosts) wrong(list []Finding, hosts ...int) {
	for _, i := range hosts {
		h.list[i].happens = func(time.Duration) []Finding { return list }
	}
}

func (h *hosts) away(set bool) {
	for _, link := range h.links {
		link.is(set)
	}
}

// mails returns the subjects of all hosts' mails.
func (h *hosts) mails(to string) (list []string) {
	for _, d := range h.list {
		for _, m := range d.mails(to) {
			_, subject, _ := strings.Cut(m.Subject(), "] ")
			list = append(list, subject)
		}
	}
	return list
}

const ann = "ann@test.example"

// TestEachHostNotifiesWhileTheStoreIsAway: the host with the lease at once, the others after its lease. They do not
// repeat what was reported before, and know the end of what they found themselves.
func TestEachHostNotifiesWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 2, ann)
		h.wrong([]Finding{fails("x")}, 0, 1)
		h.pass(t, 5*time.Minute, 0, 1)
		if list := h.mails(ann); len(list) != 1 {
			t.Fatalf("before the outage the mails are %q", list)
		}
		h.away(true)
		h.wrong([]Finding{fails("x"), down}, 0, 1)
		h.pass(t, 10*time.Second, 0, 1)
		if list := h.mails(ann); len(list) != 2 || !strings.Contains(list[1], "shard a is down") {
			t.Fatalf("within ten seconds the mails are %q", list)
		}
		h.pass(t, leaseTTL, 0, 1)
		if list := h.mails(ann); len(list) != 3 {
			t.Fatalf("after the lease the mails are %q", list)
		}
		h.wrong(nil, 0, 1)
		h.pass(t, 5*time.Minute, 0, 1)
		if list := h.mails(ann); len(list) != 5 || !strings.Contains(list[4], "resolved") {
			t.Fatalf("after the end the mails are %q", list)
		}
		h.away(false)
		h.pass(t, 5*time.Minute, 0, 1)
		if list := h.mails(ann); len(list) != 5 {
			t.Errorf("after the outage the mails are %q", list)
		}
	})
}

// TestAHostWhoseLeaderDiesWithTheStoreNotifies without it.
func TestAHostWhoseLeaderDiesWithTheStoreNotifies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 2, ann)
		h.pass(t, time.Minute, 0, 1)
		h.away(true)
		h.wrong([]Finding{down}, 1)
		h.pass(t, leaseTTL+defaultEvery, 1)
		if list := h.mails(ann); len(list) != 1 {
			t.Errorf("the mails are %q", list)
		}
	})
}

// TestWhatAnotherHostFoundLastsDuringAnOutageOfTheStore: nobody can tell whether it has ended.
func TestWhatAnotherHostFoundLastsDuringAnOutageOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 2, ann)
		h.wrong([]Finding{{Cause: Cause{Kind: "journal", Severity: Critical, Text: message.Plain("no space left")}}}, 0)
		h.pass(t, time.Minute, 0, 1)
		h.away(true)
		h.pass(t, 20*time.Minute, 1)
		if list := h.mails(ann); len(list) != 1 {
			t.Errorf("the mails are %q", list)
		}
	})
}

// TestOnlyAFollowerFindsIt: people are notified of its beginning and its end, once.
func TestOnlyAFollowerFindsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 3, ann)
		h.pass(t, time.Minute, 0, 1, 2)
		h.wrong([]Finding{down}, 1)
		h.pass(t, 5*time.Minute, 0, 1, 2)
		open := h.list[0].open[down.Key()]
		if list := h.mails(ann); len(list) != 1 || open == nil || open.Host != "b" {
			t.Fatalf("the mails are %q, the alert is %+v", list, open)
		}
		h.wrong([]Finding{down}, 2) // a rolling change of who finds it
		h.wrong(nil, 1)
		h.pass(t, 5*time.Minute, 0, 1, 2)
		if list := h.mails(ann); len(list) != 1 {
			t.Fatalf("the mails are %q", list)
		}
		h.wrong(nil, 2)
		h.pass(t, time.Minute, 0, 1, 2)
		if list := h.mails(ann); len(list) != 2 || !strings.Contains(list[1], "resolved") {
			t.Errorf("in the end the mails are %q", list)
		}
	})
}

// TestAHostThatLedDropsWhatItDidAlone: another one has the lease when the store is back.
func TestAHostThatLedDropsWhatItDidAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, 2, ann)
		h.pass(t, time.Minute, 0, 1)
		h.links[0].is(true) // only the first host loses it
		h.wrong([]Finding{down}, 0, 1)
		h.pass(t, 5*time.Minute, 0, 1)
		if list := h.mails(ann); len(list) != 2 {
			t.Fatalf("the mails are %q", list)
		}
		h.links[0].is(false)
		h.pass(t, 5*time.Minute, 0, 1)
		if h.list[0].leads || !h.list[1].leads {
			t.Error("the lease changed")
		}
		h.wrong(nil, 0, 1)
		h.pass(t, 5*time.Minute, 0, 1)
		if list := h.mails(ann); len(list) != 3 {
			t.Errorf("in the end the mails are %q", list)
		}
	})
}
