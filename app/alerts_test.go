package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/alert"
)

// TestTheAPIListsAlertsWithoutTheDatabase: those that this host's redis-checker knows.
func TestTheAPIListsAlertsWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	p := &parts{cfg: configOf(t), registry: emptyRegistry(t)}
	p.cfg.DataDir = t.TempDir()
	text, err := json.Marshal(alert.Known{At: time.Now(), Alerts: []*alert.Alert{{Key: "registry", Kind: "registry"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.cfg.DataDir, "alerts.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	alerts, err := p.alerts()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.registry.DB().Close(); err != nil {
		t.Fatal(err)
	}
	list, err := alerts.ListAlerts(t.Context(), alert.Filter{})
	if err != nil || len(list) != 1 || list[0].Kind != "registry" {
		t.Errorf("listed %+v, %v", list, err)
	}
	list, err = alerts.ListAlerts(t.Context(), alert.Filter{May: func(*alert.Alert) bool { return false }})
	if err != nil || len(list) != 0 {
		t.Errorf("a token without rights is shown %+v, %v", list, err)
	}
}
