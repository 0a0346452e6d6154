package conf

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestThePackagesConfiguration runs everything on its machine: it sets the place of the data, and otherwise names
// defaults. The socket unit has its addresses: a socket on another host would prevent Wakecall from listening on the
// same port.
func TestThePackagesConfiguration(t *testing.T) {
	text, err := os.ReadFile("../deploy/wakecall.socket")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(LoadOptions{File: "../deploy/package/wakecall.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // which has no wakecall.yaml
	defaults, err := Load(LoadOptions{Env: []string{"WAKECALL_DATA_DIR=/var/lib/wakecall"}})
	if err != nil {
		t.Fatal(err)
	}
	values := func(c *Config) (all []string) {
		for _, s := range c.Effective() {
			all = append(all, s.Key+"="+s.Value)
		}
		return all
	}
	if got, want := values(cfg), values(defaults); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
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
