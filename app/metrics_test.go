package app

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
	"github.com/wakecall/wakecall/master"
	"github.com/wakecall/wakecall/relay"
	"github.com/wakecall/wakecall/test/metricspage"
)

// TestEveryMetricIsOnItsPage, with its labels, and the page has no other.
func TestEveryMetricIsOnItsPage(t *testing.T) {
	t.Parallel()
	page, have := metricspage.Read(t), described(t)
	for name, labels := range have {
		if on, ok := page[name]; !ok || !slices.Equal(on.Labels, labels) {
			t.Errorf("%s%q is not in docs/reference/metrics.md with these labels: %+v", name, labels, on)
		}
	}
	for name := range page {
		if _, ok := have[name]; !ok {
			t.Errorf("docs/reference/metrics.md has %s, which does not exist", name)
		}
	}
}

var description = regexp.MustCompile(`fqName: "(wakecall_\w+)", .*variableLabels: \{(.*)\}\}`)

// described returns the labels of the metrics of all roles, of the master and of the relay.
func described(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	carrier := relay.New(relay.Options{Table: new(relay.Table)})
	for _, c := range append(roleMetrics(t), new(master.Master), carrier.Metrics()) {
		ch := make(chan *prometheus.Desc)
		go func() { defer close(ch); c.Describe(ch) }()
		for d := range ch {
			if m := description.FindStringSubmatch(d.String()); m != nil {
				all[m[1]] = metricspage.Labels(strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' }))
			}
		}
	}
	if len(all) < 30 {
		t.Fatalf("only these metrics were found: %q", slices.Sorted(maps.Keys(all)))
	}
	return all
}

// roleMetrics returns the metrics of each role.
func roleMetrics(t *testing.T) (list []prometheus.Collector) {
	t.Helper()
	cfg, err := conf.Load(conf.LoadOptions{Search: []string{}, Gateways: GatewayKeys(), Flags: map[string]string{
		"data_dir": t.TempDir(), "gateways.phpdq.addr": "127.0.0.1:0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := setup.MakeDataDir(cfg); err != nil {
		t.Fatal(err)
	}
	for _, name := range Roles() {
		if name == RoleAdmin { // has those that all have; its sessions start what only the end of its process ends
			continue
		}
		p, err := openParts(t.Context(), cfg, name, "test", slog.New(slog.DiscardHandler), registry.MigrateOlder)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.close() })
		if _, err := p.newRole(name, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := p.newKeeper(); err != nil {
			t.Fatal(err)
		}
		certified := &tls.Config{Certificates: []tls.Certificate{{Leaf: &x509.Certificate{}}}}
		if err := p.showExpiry(name, certified); err != nil {
			t.Fatal(err)
		}
		list = append(list, p.metrics)
	}
	return list
}
