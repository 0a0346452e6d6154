package conf

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTheSocketUnitHasTheAddressesOfTheConfiguration that is installed with it: a socket on 127.0.0.1 would prevent
// Wakecall from listening on the same port of 0.0.0.0.
func TestTheSocketUnitHasTheAddressesOfTheConfiguration(t *testing.T) {
	cfg, err := Load(LoadOptions{File: "../deploy/wakecall.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../deploy/wakecall.socket")
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for line := range strings.Lines(string(text)) {
		if addr, ok := strings.CutPrefix(strings.TrimSpace(line), "ListenStream="); ok {
			addrs = append(addrs, addr)
		}
	}
	if want := []string{cfg.Server.Addr, cfg.Admin.Addr, cfg.Metrics.Addr}; !slices.Equal(addrs, want) {
		t.Errorf("the socket unit listens on %q, the configuration says %q", addrs, want)
	}
}
