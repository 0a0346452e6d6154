package app

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/callback"
	"github.com/wakecall/wakecall/internal/registry"
)

// TestNoCallbackReachesAListenerOfThisHost, on whatever address, unless the configuration allows it.
func TestNoCallbackReachesAListenerOfThisHost(t *testing.T) {
	t.Parallel()
	var reached atomic.Int32
	serve := func() string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
		var err error
		if s.Listener, err = net.Listen("tcp", "0.0.0.0:0"); err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(s.Close)
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		return port
	}
	ours, free, others := serve(), serve(), serve()
	hosts := []string{"127.0.0.1", "127.9.9.9", "localhost", "[::ffff:127.0.0.1]"}
	local, err := localAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range local {
		if a.Is4() {
			hosts = append(hosts, a.String())
		}
	}
	calls := func(allowed, port string) []callback.Outcome {
		t.Helper()
		cfg := configOf(t, "WAKECALL_SERVER_ADDR=0.0.0.0:"+ours, "WAKECALL_METRICS_ADDR=127.0.0.1:0",
			"WAKECALL_CALLBACK_OWN_LISTENERS="+allowed)
		p := &parts{cfg: cfg, registry: emptyRegistry(t), bound: map[string]string{"metrics.addr": "127.0.0.1:" + free}}
		c, err := p.newCaller()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var list []callback.Outcome
		for _, host := range hosts {
			e, err := callback.CompileEndpoint(callback.EndpointSpec{URL: "http://" + host + ":" + port + "/"})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, c.Do(t.Context(), e, &callback.Request{
				Topic: "t", ID: "1", Body: []byte("{}"), Timeout: 10 * time.Second,
			}))
		}
		return list
	}
	for key, port := range map[string]string{"server.addr": ours, "metrics.addr": free} {
		for i, o := range calls("", port) {
			if o.Reason != "blocked" || !strings.Contains(o.Err, key) || !strings.Contains(o.Err, "own_listeners") {
				t.Errorf("%s of %s: %+v", key, hosts[i], o)
			}
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("listeners were reached %d times", n)
	}
	for what, list := range map[string][]callback.Outcome{
		"an allowed listener": calls("server.addr,admin.addr", ours), "an endpoint of this host": calls("", others),
	} {
		for i, o := range list {
			if o.Status != http.StatusOK {
				t.Errorf("%s on %s: %+v", what, hosts[i], o)
			}
		}
	}
}

// TestNoCallbackReachesAListenerOfAnotherHost that has reported where it listens within a week.
func TestNoCallbackReachesAListenerOfAnotherHost(t *testing.T) {
	t.Parallel()
	r, now := emptyRegistry(t), time.Now()
	report := func(at time.Time, env ...string) *parts {
		t.Helper()
		p := &parts{cfg: configOf(t, env...), registry: r}
		if err := p.reportListenersOnce(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		return p
	}
	report(now, "WAKECALL_SERVER_ADDR=198.51.100.1:6789", "WAKECALL_GATEWAYS_BEANSTALK_ADDR=[2001:db8::1]:11300")
	report(now.Add(-8*24*time.Hour), "WAKECALL_SERVER_ADDR=198.51.100.2:6789")
	revision := r.Snapshot().Revision
	here := report(now, "WAKECALL_CALLBACK_OWN_LISTENERS=gateways.beanstalk.addr")
	report(now, "WAKECALL_SERVER_ADDR=127.0.0.1:80")
	if got := r.Snapshot().Revision; got != revision {
		t.Errorf("hosts that no other can reach changed the registry: revision %d, then %d", revision, got)
	}
	own := newOwnListeners(here.cfg, nil, r.Snapshot)
	for addr, want := range map[string]string{
		"198.51.100.1:6789": "server.addr of another host", "198.51.100.1:8088": "", "198.51.100.3:6789": "",
		"198.51.100.2:6789": "", "[2001:db8::1]:11300": "",
	} {
		if got := own.at(netip.MustParseAddrPort(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}

// TestAHostReportsItsListenersOnceADay, and when they change.
func TestAHostReportsItsListenersOnceADay(t *testing.T) {
	t.Parallel()
	r, now := emptyRegistry(t), time.Now()
	p := &parts{cfg: configOf(t, "WAKECALL_SERVER_ADDR=198.51.100.1:0"), registry: r}
	reports := func(at time.Time) bool {
		t.Helper()
		before := r.Snapshot().Revision
		if err := p.reportListenersOnce(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		return r.Snapshot().Revision != before
	}
	p.bound = map[string]string{"server.addr": "198.51.100.1:1234"}
	if !reports(now) || reports(now.Add(time.Hour)) || !reports(now.Add(25*time.Hour)) {
		t.Error("the same listeners are not reported once a day")
	}
	p.bound = map[string]string{"server.addr": "198.51.100.1:4321"}
	if !reports(now.Add(25*time.Hour)) || reports(now.Add(25*time.Hour)) {
		t.Error("a change is not reported once")
	}
}

func emptyRegistry(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := registry.Open(registry.Options{
		DSN: "sqlite:" + t.TempDir() + "/registry.db", Migrate: registry.MigrateOlder, Logger: slog.New(slog.DiscardHandler),
		SnapshotFile: t.TempDir() + "/snapshot.json",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func configOf(t *testing.T, env ...string) *conf.Config {
	t.Helper()
	cfg, err := conf.Load(conf.LoadOptions{
		Env: append(env, "WAKECALL_DATA_DIR="+t.TempDir()), Gateways: GatewayKeys(), Search: []string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
