package alert

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

// TestOneHostIsToldOfAnAlert: of many that see the same, one sends the mail that it began, one each reminder, one
// that it ended.
func TestOneHostIsToldOfAnAlert(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r := NewStore(dbtest.Open(t, dsn))
		ctx := t.Context()
		atOnce := func(do func() bool) (told int) {
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range 6 {
				wg.Go(func() {
					if do() {
						mu.Lock()
						told++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			return told
		}
		must := func(ok bool, err error) bool {
			if err != nil {
				t.Error(err)
			}
			return ok
		}
		for round := range 2 {
			raise := func() bool {
				_, raised, err := r.RaiseAlert(
					ctx,
					Alert{
						Key:      "shard/a",
						Kind:     "shard_down",
						Severity: "critical",
						Subject:  "a is down",
						Shard:    "a",
						Host:     "h",
					},
				)
				return must(raised, err)
			}
			if n := atOnce(raise); n != 1 {
				t.Errorf("round %d: %d were told that it began", round, n)
			}
			a, raised, err := r.RaiseAlert(ctx, Alert{Key: "shard/a", Detail: "still", Host: "h"})
			if err != nil || raised || a.Count < 2 || a.Subject != "a is down" {
				t.Errorf("seen again: %+v, %v, %v", a, raised, err)
			}
			remind := func(at time.Time) func() bool {
				return func() bool { return must(r.ClaimReminder(ctx, a.ID, 30*time.Minute, at)) }
			}
			if n := atOnce(remind(time.Now())); n != 0 {
				t.Errorf("%d were to remind at once", n)
			}
			if n := atOnce(remind(time.Now().Add(31 * time.Minute))); n != 1 {
				t.Errorf("%d were to remind", n)
			}
			open := true
			if list, err := r.ListAlerts(ctx, Filter{Open: &open}); err != nil || len(list) != 1 ||
				list[0].EndedAt != nil {
				t.Errorf("open ones: %+v, %v", list, err)
			}
			end := func() bool {
				_, ended, err := r.EndAlert(ctx, "shard/a", "h", time.Now())
				return must(ended, err)
			}
			if n := atOnce(end); n != 1 {
				t.Errorf("%d were told that it ended", n)
			}
		}
		if list, err := r.ListAlerts(ctx, Filter{Kind: "shard_down"}); err != nil || len(list) != 2 ||
			list[0].EndedAt == nil {
			t.Errorf("the history: %+v, %v", list, err)
		}
		if err := r.AddDelivery(ctx, Delivery{AlertID: 1, At: time.Now(), Channel: "mail", Recipient: "a@b.example", State: "failed", Tries: 3, Error: "550 no"}); err != nil {
			t.Fatal(err)
		}
		if list, err := r.ListDeliveries(ctx, 10); err != nil || len(list) != 1 || list[0].Error != "550 no" {
			t.Errorf("deliveries: %+v, %v", list, err)
		}
	})
}

// TestAnAlertIsOverWhenNoHostFindsIt: those that lately did are asked, one that died is not waited for.
func TestAnAlertIsOverWhenNoHostFindsIt(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r := NewStore(dbtest.Open(t, dsn))
		for _, host := range []string{"h1", "h2", "dead"} {
			if _, _, err := r.RaiseAlert(t.Context(), Alert{Key: "k", Host: host}); err != nil {
				t.Fatal(err)
			}
		}
		leave := func(host string) (open, ended bool) {
			t.Helper()
			a, ended, err := r.EndAlert(t.Context(), "k", host, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return a.ID != 0 && a.EndedAt == nil, ended
		}
		if open, ended := leave("h1"); !open || ended {
			t.Errorf("one of three left: open %v, ended %v", open, ended)
		}
		if err := dbtest.Run(r.db, "UPDATE alert_finders SET seen_at = seen_at - 91000 WHERE host = 'dead'"); err != nil {
			t.Fatal(err)
		}
		if open, ended := leave("h1"); !open || ended {
			t.Errorf("one is left: open %v, ended %v", open, ended)
		}
		if open, ended := leave("h2"); open || !ended {
			t.Errorf("all have left: open %v, ended %v", open, ended)
		}
		if open, ended := leave("h1"); open || ended {
			t.Errorf("it is over: open %v, ended %v", open, ended)
		}
	})
}

// TestAWaitingMessageHasOneSender: the process that queued it, or one of the others when that is gone.
func TestAWaitingMessageHasOneSender(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r := NewStore(dbtest.Open(t, dsn))
		ctx := t.Context()
		take := func(holder string) []QueuedDelivery {
			t.Helper()
			list, err := r.TakeDeliveries(ctx, holder)
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		d := Delivery{
			AlertID:   7,
			At:        time.Now(),
			Channel:   "mail",
			Recipient: "a@b.example",
			Subject:   "s",
			State:     "waiting",
		}
		var err error
		if d.ID, err = r.QueueDelivery(ctx, "h1/1", QueuedDelivery{d, `{"Phase":"begins"}`}); err != nil {
			t.Fatal(err)
		}
		if list := take("h2/1"); len(list) > 0 {
			t.Errorf("another one got %+v", list)
		}
		list := take("h1/1")
		if len(list) != 1 || list[0].ID != d.ID || list[0].AlertID != 7 || list[0].Message != `{"Phase":"begins"}` {
			t.Fatalf("its own: %+v", list)
		}
		d.State, d.Tries, d.Error = "retrying", 1, "busy"
		if err := errors.Join(r.NoteDelivery(ctx, d), r.LeaveDeliveries(ctx, "h1/1")); err != nil {
			t.Fatal(err)
		}
		if list := take("h2/1"); len(list) != 1 || list[0].Tries != 1 {
			t.Errorf("left behind: %+v", list)
		}
		if list := take("h1/2"); len(list) > 0 {
			t.Errorf("two got it: %+v", list)
		}
		if err := dbtest.Run(r.db, "UPDATE alert_outbox SET held_until = held_until - 121000"); err != nil {
			t.Fatal(err)
		}
		if list := take("h3/1"); len(list) != 1 {
			t.Errorf("left behind by one that died: %+v", list)
		}
		d.State = "sent"
		if err := r.NoteDelivery(ctx, d); err != nil {
			t.Fatal(err)
		}
		if list := take("h3/1"); len(list) > 0 {
			t.Errorf("it is sent, and waits: %+v", list)
		}
		if list, err := r.ListDeliveries(ctx, 10); err != nil || len(list) != 1 || list[0].State != "sent" {
			t.Errorf("the history: %+v, %v", list, err)
		}
	})
}

func TestEachDeathIsClaimedOnce(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r := NewStore(dbtest.Open(t, dsn))
		claim := func(topic string, count int64, fell bool, want int64) {
			t.Helper()
			news, err := r.ClaimDeaths(t.Context(), map[string]Deaths{topic: {count, fell}})
			if err != nil || news[topic] != want {
				t.Errorf("%d of %s: %v, %v; want %d", count, topic, news, err, want)
			}
		}
		claim("a", 7, false, 0) // before anybody watched
		claim("a", 9, false, 2)
		claim("a", 9, false, 0)
		claim("a", 8, false, 0) // another host's older number
		claim("a", 10, false, 1)
		claim("new", 3, false, 3)
		claim("a", 2, true, 0)
		claim("a", 4, false, 2)
		var wg sync.WaitGroup
		var mu sync.Mutex
		total := int64(0)
		for range 4 {
			wg.Go(func() {
				news, err := r.ClaimDeaths(t.Context(), map[string]Deaths{"a": {Count: 14}})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				total += news["a"]
			})
		}
		wg.Wait()
		if total != 10 {
			t.Errorf("four hosts claimed %d, want 10", total)
		}
	})
}
