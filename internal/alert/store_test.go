package alert

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/internal/registry/database"
	"github.com/wakecall/wakecall/test/dbtest"
)

func save(t *testing.T, s *Store, c Changes) {
	t.Helper()
	if err := s.Save(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
}

// openAlerts returns the open alerts, at least one.
func openAlerts(t *testing.T, s *Store) []Alert {
	t.Helper()
	list, err := s.ListAlerts(t.Context(), Filter{})
	if err != nil || len(list) == 0 {
		t.Fatalf("the open alerts are %+v, %v", list, err)
	}
	return list
}

func sync1(t *testing.T, s *Store, host string, findings ...Finding) Shared {
	t.Helper()
	sh, err := s.Sync(t.Context(), Report{host, host + "/1", findings})
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

// TestTheStateIsShared: what the process that leads saves is what the next one reads.
func TestTheStateIsShared(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		s := NewStore(dbtest.Open(t, dsn))
		if a, b := sync1(t, s, "h1"), sync1(t, s, "h2"); !a.Leads || b.Leads {
			t.Errorf("the first process leads: %v, the second one: %v", a.Leads, b.Leads)
		}
		at := time.Now().UTC().Truncate(time.Microsecond)
		a := Alert{
			Key: "topic/a", Topic: "a", Kind: "breaker", Severity: Critical, Host: "h1", Count: 1,
			BeganAt: at, LastSeenAt: at,
			Causes: []Cause{{Kind: "breaker", Severity: Critical, N: 12, Answer: "429", BeganAt: at}},
		}
		began := map[string]NotifiedAlert{"topic/a": {Title: "x", BeganAt: at}}
		n := &Notified{Alerts: began, Last: at, Stage: 2, Thread: "T"}
		waits := Delivery{
			ID: "1", At: at, Channel: "mail", Recipient: "a@b.example", Subject: "s", State: Retrying, Tries: 1,
			Error: "550 no", Message: `{"Phase":"begins"}`,
		}
		sent := Delivery{ID: "2", At: at.Add(time.Second), State: Sent}
		save(t, s, Changes{
			Alerts: []*Alert{&a}, Receivers: map[string]*Notified{"mail a@b.example": n},
			Deliveries: []Delivery{waits, sent},
		})
		if err := s.Resign(t.Context(), "h1/1"); err != nil {
			t.Fatal(err)
		}
		sh := sync1(t, s, "h2")
		if !sh.Leads || len(sh.Open) != 1 || len(sh.Waiting) != 1 {
			t.Fatalf("the next process reads %+v", sh)
		}
		if sh.Open[0].ID == 0 {
			t.Error("the alert has no ID")
		}
		if a.ID = sh.Open[0].ID; !reflect.DeepEqual(sh.Open[0], a) {
			t.Errorf("the alert is %+v, want %+v", sh.Open[0], a)
		}
		if got := sh.Receivers["mail a@b.example"]; !reflect.DeepEqual(got, n) {
			t.Errorf("the receiver is %+v, want %+v", got, n)
		}
		if sh.Waiting[0] != waits {
			t.Errorf("the message is %+v, want %+v", sh.Waiting[0], waits)
		}
		a.EndedAt, waits.State = &at, Sent
		save(t, s, Changes{Alerts: []*Alert{&a}, Deliveries: []Delivery{waits}})
		if sh := sync1(t, s, "h2"); len(sh.Open)+len(sh.Waiting) > 0 {
			t.Errorf("after the end there are %+v", sh)
		}
		list, err := s.ListAlerts(t.Context(), Filter{Ended: true})
		if err != nil || len(list) != 1 || list[0].ID != a.ID {
			t.Errorf("the ended alerts are %+v, %v", list, err)
		}
		if list, err := s.ListDeliveries(t.Context(), 10); err != nil || len(list) != 2 || list[0].ID != "2" {
			t.Errorf("the deliveries are %+v, %v", list, err)
		}
	})
}

// TestListsOfAlertsCountWhatMayBeSeen: alerts of other topics take none of the places of a list, and a process that
// leads knows all open alerts.
func TestListsOfAlertsCountWhatMayBeSeen(t *testing.T) {
	s := NewStore(dbtest.Open(t, dbtest.SQLite(t)))
	at := database.Now()
	var c Changes
	for i := range database.MaxLimit + 100 {
		a := Alert{Key: fmt.Sprint("bank/", i), Topic: "bank", Kind: "late", BeganAt: at, LastSeenAt: at,
			Causes: []Cause{{Kind: "late", BeganAt: at}}}
		if i == 0 {
			a.Key, a.Topic = "shop", "shop"
		}
		c.Alerts = append(c.Alerts, &a)
	}
	save(t, s, c)
	may := func(a *Alert) bool { return a.Topic == "shop" }
	list, err := s.ListAlerts(t.Context(), Filter{Limit: 50, May: may})
	if err != nil || len(list) != 1 || list[0].Key != "shop" {
		t.Errorf("a tenant's list is %+v, %v", list, err)
	}
	if sh := sync1(t, s, "h1"); len(sh.Open) != len(c.Alerts) {
		t.Errorf("of %d open alerts, the process that leads knows %d", len(c.Alerts), len(sh.Open))
	}
}

// TestChangesAreSavedTogether, or none of them: nobody counts as notified whose message is not stored.
func TestChangesAreSavedTogether(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		s := NewStore(dbtest.Open(t, dsn))
		if err := dbtest.Run(s.db, "DROP TABLE alert_deliveries"); err != nil {
			t.Fatal(err)
		}
		err := s.Save(t.Context(), &Changes{
			Receivers: map[string]*Notified{"x": {Stage: 1}}, Deliveries: []Delivery{{ID: "1", At: time.Now()}},
		})
		if err == nil {
			t.Fatal("a message is saved without its table")
		}
		var n int64
		if err := s.db.Do(t.Context(), func(tx *gorm.DB) error {
			return tx.Model(&receiverRow{}).Count(&n).Error
		}); err != nil || n > 0 {
			t.Errorf("%d receivers are saved, %v", n, err)
		}
	})
}

// TestHostsReadEachOthersFindings, until a host finds nothing more or has not reported for 20 seconds.
func TestHostsReadEachOthersFindings(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		s := NewStore(dbtest.Open(t, dsn))
		slow := Finding{Shard: "a", Cause: Cause{Kind: "shard_slow", Severity: Warning, Host: "h2"}}
		late := Finding{Topic: "t", Cause: Cause{Kind: "late", Severity: Warning, N: 3, For: time.Minute, Host: "h2"}}
		sync1(t, s, "h1", down)
		if sh := sync1(t, s, "h2", slow, late); !reflect.DeepEqual(sh.Others, []Finding{down}) {
			t.Errorf("the second host reads %+v", sh.Others)
		}
		if sh := sync1(t, s, "h1", down); !reflect.DeepEqual(sh.Others, []Finding{slow, late}) {
			t.Errorf("the first host reads %+v", sh.Others)
		}
		if sh := sync1(t, s, "h3"); !reflect.DeepEqual(sh.Others, []Finding{down, slow, late}) {
			t.Errorf("the third host reads %+v", sh.Others)
		}
		const age = "UPDATE alert_reports SET reported_at = reported_at - 21000 WHERE host = 'h2'"
		if err := dbtest.Run(s.db, age); err != nil {
			t.Fatal(err)
		}
		sync1(t, s, "h1")
		if sh := sync1(t, s, "h3"); len(sh.Others) > 0 {
			t.Errorf("in the end the third host reads %+v", sh.Others)
		}
	})
}

// TestAnAlertIsAcknowledgedAndMuted: an acknowledgement ends with the alert, a mute at its own time.
func TestAnAlertIsAcknowledgedAndMuted(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
		dbtest.Open(t, dsn)
		reg, err := registry.Open(registry.Options{DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		defer reg.Close()
		r := NewStore(reg.DB())
		raise := func() {
			t.Helper()
			save(t, r, Changes{Alerts: []*Alert{{Key: "topic/a", Causes: []Cause{{Kind: "late"}}}}})
		}
		handle := func(why string, until time.Time) Handling {
			t.Helper()
			if err := Handle(t.Context(), reg, "ann", "topic/a", why, until); err != nil {
				t.Fatal(err)
			}
			return openAlerts(t, r)[0].Handling
		}
		if err := Handle(t.Context(), reg, "ann", "topic/a", "mine", time.Time{}); !errors.Is(err, ErrNoAlert) {
			t.Errorf("an unknown alert: %v", err)
		}
		raise()
		acked := handle("mine", time.Time{})
		if !acked.Acknowledged() || acked.By != "ann" || acked.Why != "mine" || acked.Muted(time.Now()) {
			t.Errorf("acknowledged: %+v", acked)
		}
		first := openAlerts(t, r)[0]
		first.EndedAt = new(time.Now())
		save(t, r, Changes{Alerts: []*Alert{&first}})
		raise()
		if next := openAlerts(t, r)[0]; next.ID == first.ID || next.Handling != (Handling{}) {
			t.Errorf("the next alert is %+v", next)
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

func TestEachDeathIsClaimedOnce(t *testing.T) {
	dbtest.OnAll(t, func(t *testing.T, dsn string) {
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
	})
}
