package alerts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/wakecall/wakecall/admin"
	"github.com/wakecall/wakecall/admin/admintest"
	"github.com/wakecall/wakecall/internal/alert"
	"github.com/wakecall/wakecall/internal/message"
)

func TestAlertsPage(t *testing.T) {
	t.Parallel()
	var store *alert.Store
	s := admintest.Open(t, func(o *admin.Options) {
		store = alert.NewStore(o.Registry.DB())
		o.Alerts = store
	})
	for key, ended := range map[string]*time.Time{"a": nil, "b": new(time.Now())} {
		admintest.SaveAlert(t, store, alert.Alert{Key: key, Kind: "shard_down", Severity: "critical", EndedAt: ended,
			Causes: []alert.Cause{{Kind: "shard_down", Severity: "critical", Text: message.Plain("<script>" + key)}}})
	}
	admintest.Must(t, store.Save(t.Context(), &alert.Changes{Deliveries: []alert.Delivery{
		{ID: "1", Channel: "mail", Recipient: "ops@example.com", State: "failed", Error: "421 busy", At: time.Now()},
	}}))
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
		admintest.SaveAlert(t, store, a)
	}
	s.Shows("/alerts", "topic t0 is late", ">203</span>", "Only the 200 most severe are listed.")
	s.Shows("/alerts?kind=late", "topic t0 is late")
}
