package app

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestTwoDrainersAreToldApart: one of them moves jobs at a time, and two containers may have one host name and one pid.
func TestTwoDrainersAreToldApart(t *testing.T) {
	one := (&parts{metrics: prometheus.NewRegistry()}).newDrainer()
	other := (&parts{metrics: prometheus.NewRegistry()}).newDrainer()
	if one.holder == "" || one.holder == other.holder {
		t.Errorf("two drainers in one process are %q and %q", one.holder, other.holder)
	}
}
