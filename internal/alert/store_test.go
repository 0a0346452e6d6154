package alert

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/test/dbtest"
)

// TestOneHostSendsAMessage: of several hosts with the same message, one sends it.
func TestOneHostSendsAMessage(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r := NewStore(dbtest.Open(t, dsn))
		for round := range 3 {
			var wg sync.WaitGroup
			var told atomic.Int64
			hosts := make([]*Told, 6)
			for i := range hosts {
				known, err := r.ListTold(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if hosts[i] = known["mail a@b.example"]; hosts[i] == nil {
					hosts[i] = &Told{}
				}
				hosts[i].Stage++
			}
			for _, mine := range hosts {
				wg.Go(func() {
					saved, err := r.SaveTold(t.Context(), "mail a@b.example", mine)
					if err != nil {
						t.Error(err)
					}
					if saved {
						told.Add(1)
					}
				})
			}
			wg.Wait()
			if known, err := r.ListTold(t.Context()); told.Load() != 1 || err != nil ||
				known["mail a@b.example"].Stage != round+1 {
				t.Errorf("round %d: %d hosts may send; it is %+v, %v", round, told.Load(), known["mail a@b.example"], err)
			}
		}
	})
}

// TestAnAlertIsStoredWithItsCauses, once, however many hosts find it.
func TestAnAlertIsStoredWithItsCauses(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r, open := NewStore(dbtest.Open(t, dsn)), true
		causes := []Cause{{Kind: "breaker", Severity: Critical, N: 12, Answer: "429", BeganAt: time.Now().UTC().Round(0)}}
		for _, kind := range []string{"breaker", "late"} {
			for _, host := range []string{"h1", "h2"} {
				a := Alert{Key: "topic/a", Topic: "a", Kind: kind, Severity: Critical, Causes: causes, Host: host}
				if _, err := r.RaiseAlert(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
		}
		list, err := r.ListAlerts(t.Context(), Filter{Open: &open})
		if err != nil || len(list) != 1 || list[0].Count != 4 || list[0].Kind != "late" || list[0].Host != "h1" ||
			!reflect.DeepEqual(list[0].Causes, causes) {
			t.Errorf("it is %+v, %v", list, err)
		}
		if err := r.AddDelivery(t.Context(), Delivery{
			AlertID: 1, At: time.Now(), Channel: "mail", Recipient: "a@b.example", State: "failed", Tries: 3, Error: "550 no",
		}); err != nil {
			t.Fatal(err)
		}
		if list, err := r.ListDeliveries(t.Context(), 10); err != nil || len(list) != 1 || list[0].Error != "550 no" {
			t.Errorf("deliveries: %+v, %v", list, err)
		}
	})
}

// TestAnAlertIsAcknowledgedAndMuted: an acknowledgement ends with the alert, a mute at its own time.
func TestAnAlertIsAcknowledgedAndMuted(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		dbtest.Open(t, dsn)
		reg, err := registry.Open(registry.Options{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		defer reg.Close()
		r, open := NewStore(reg.DB()), true
		raise := func() {
			t.Helper()
			if _, err := r.RaiseAlert(t.Context(), Alert{Key: "topic/a", Kind: "late", Host: "h"}); err != nil {
				t.Fatal(err)
			}
		}
		handle := func(why string, until time.Time) Handling {
			t.Helper()
			if err := Handle(t.Context(), reg, "ann", "topic/a", why, until); err != nil {
				t.Fatal(err)
			}
			list, err := r.ListAlerts(t.Context(), Filter{Open: &open})
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			return list[0].Handling
		}
		if err := Handle(t.Context(), reg, "ann", "topic/a", "mine", time.Time{}); !errors.Is(err, ErrNoAlert) {
			t.Errorf("an unknown alert: %v", err)
		}
		raise()
		if h := handle("mine", time.Time{}); !h.Acknowledged() || h.By != "ann" || h.Why != "mine" || h.Muted(time.Now()) {
			t.Errorf("acknowledged: %+v", h)
		}
		if _, err := r.EndAlert(t.Context(), "topic/a", "h", time.Now()); err != nil {
			t.Fatal(err)
		}
		raise()
		if list, err := r.ListAlerts(t.Context(), Filter{Open: &open}); err != nil || list[0].Handling != (Handling{}) {
			t.Errorf("the next alert is %+v, %v", list, err)
		}
		h := handle("known", time.Now().Add(time.Hour))
		if h.Acknowledged() || !h.Muted(time.Now()) || h.Muted(time.Now().Add(2*time.Hour)) {
			t.Errorf("muted: %+v", h)
		}
		if h := handle("", time.Time{}); h != (Handling{}) {
			t.Errorf("with both undone: %+v", h)
		}
		entries, err := reg.Audit(t.Context(), registry.AuditFilter{Object: "alert/topic/a"})
		if err != nil || len(entries) != 3 || entries[1].Action != "mute" {
			t.Errorf("the audit trail has %+v, %v", entries, err)
		}
	})
}

// TestAnAlertIsOverWhenNoHostFindsIt: the hosts that found it recently must all agree, except a dead one.
func TestAnAlertIsOverWhenNoHostFindsIt(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		r := NewStore(dbtest.Open(t, dsn))
		for _, host := range []string{"h1", "h2", "dead"} {
			if _, err := r.RaiseAlert(t.Context(), Alert{Key: "k", Host: host}); err != nil {
				t.Fatal(err)
			}
		}
		leave := func(host string) bool {
			t.Helper()
			over, err := r.EndAlert(t.Context(), "k", host, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return over
		}
		if leave("h1") {
			t.Error("it is over when one of three hosts no longer finds it")
		}
		if err := dbtest.Run(r.db, "UPDATE alert_finders SET seen_at = seen_at - 91000 WHERE host = 'dead'"); err != nil {
			t.Fatal(err)
		}
		if leave("h1") {
			t.Error("it is over while one host still finds it")
		}
		if !leave("h2") || !leave("h1") {
			t.Error("it is not over although no host finds it")
		}
	})
}

// TestAWaitingMessageHasOneSender: the process that queued it, or another one after that process has ended.
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
			t.Errorf("another process got %+v", list)
		}
		list := take("h1/1")
		if len(list) != 1 || list[0].ID != d.ID || list[0].AlertID != 7 || list[0].Message != `{"Phase":"begins"}` {
			t.Fatalf("its own messages: %+v", list)
		}
		d.State, d.Tries, d.Error = "retrying", 1, "busy"
		if err := errors.Join(r.NoteDelivery(ctx, d), r.LeaveDeliveries(ctx, "h1/1")); err != nil {
			t.Fatal(err)
		}
		if list := take("h2/1"); len(list) != 1 || list[0].Tries != 1 {
			t.Errorf("released at shutdown: %+v", list)
		}
		if list := take("h1/2"); len(list) > 0 {
			t.Errorf("two processes got it: %+v", list)
		}
		if err := dbtest.Run(r.db, "UPDATE alert_outbox SET held_until = held_until - 121000"); err != nil {
			t.Fatal(err)
		}
		if list := take("h3/1"); len(list) != 1 {
			t.Errorf("left by a dead process: %+v", list)
		}
		d.State = "sent"
		if err := r.NoteDelivery(ctx, d); err != nil {
			t.Fatal(err)
		}
		if list := take("h3/1"); len(list) > 0 {
			t.Errorf("it was sent, and still waits: %+v", list)
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
		claim("a", 7, false, 0) // before the first watch
		claim("a", 9, false, 2)
		claim("a", 9, false, 0)
		claim("a", 8, false, 0) // another host's outdated number
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

// TestHostsKeepEachOthersCauses: an alert has the causes that any of its hosts still finds, and the severity of the
// worst, whichever host reports last.
func TestHostsKeepEachOthersCauses(t *testing.T) {
	dbtest.OnBoth(t, func(t *testing.T, dsn string) {
		s := NewStore(dbtest.Open(t, dsn))
		report := func(host string, causes ...Cause) string {
			t.Helper()
			_, err := s.RaiseAlert(t.Context(), Alert{
				Key: "shard/a", Shard: "a", Kind: causes[0].Kind, Severity: causes[0].Severity, Host: host, Causes: causes,
			})
			if err != nil {
				t.Fatal(err)
			}
			open := true
			list, err := s.ListAlerts(t.Context(), Filter{Open: &open})
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v: %v", list, err)
			}
			now := list[0].Severity + " " + list[0].Kind + ":"
			for _, c := range list[0].Causes {
				now += " " + c.Kind
			}
			return now
		}
		down := Cause{Kind: "shard_down", Severity: Critical}
		slow, restarted := Cause{Kind: "shard_slow", Severity: Warning}, Cause{Kind: "shard_restarted", Severity: Info}
		report("h1", down)
		for range 2 {
			for _, host := range []string{"h1", "h2"} {
				cause := map[string]Cause{"h1": down, "h2": slow}[host]
				if now := report(host, cause); host == "h2" && now != "critical shard_down: shard_down shard_slow" {
					t.Errorf("after a report of %s it is %s", host, now)
				}
			}
		}
		if now := report("h1", restarted); now != "warning shard_slow: shard_slow shard_restarted" {
			t.Errorf("after the end of the outage it is %s", now)
		}
		if over, err := s.EndAlert(t.Context(), "shard/a", "h1", time.Now()); over || err != nil {
			t.Fatalf("over %v: %v", over, err)
		}
		if now := report("h2", slow); now != "warning shard_slow: shard_slow" {
			t.Errorf("without the other host it is %s", now)
		}
	})
}
