package alerts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
)

func TestAlertsPage(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := admintest.Open(t, func(o *admin.Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts = store
	})
	for _, key := range []string{"a", "b"} {
		if _, err := store.RaiseAlert(t.Context(),
			alert.Alert{Key: key, Kind: "shard_down", Severity: "critical", Subject: "<script>" + key}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.EndAlert(t.Context(), "b", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := store.AddDelivery(t.Context(),
		alert.Delivery{Channel: "mail", Recipient: "ops@example.com", State: "failed", Error: "421 busy",
			At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s.As("look").Shows("/alerts", "&lt;script&gt;a", "&lt;script&gt;b", "critical")
	s.Shows("/alerts/deliveries", "421 busy")
	s.Shows("/", "&lt;script&gt;a")
}

// TestTheWorstAlertsAreListed, if there are more than the page shows: an old critical one before newer warnings.
func TestTheWorstAlertsAreListed(t *testing.T) {
	t.Parallel()
	s := admintest.Open(t, nil).As("look")
	store := alert.NewStore(s.Registry.DB())
	for i := range 203 {
		a := alert.Alert{Key: fmt.Sprint("topic/t", i), Topic: fmt.Sprint("t", i), Kind: "late",
			Severity: alert.Warning}
		if i == 0 {
			a.Severity = alert.Critical
		}
		a.Causes = []alert.Cause{{Kind: a.Kind, Severity: a.Severity}}
		_, err := store.RaiseAlert(t.Context(), a)
		admintest.Must(t, err)
	}
	s.Shows("/alerts", "topic t0 is late", ">203</span>", "Only the 200 most severe are listed.")
	s.Shows("/alerts?kind=late", "topic t0 is late")
}
