package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer is a local DNS server: it answers every question with zone's result, with a TTL of zero.
func nameServer(t *testing.T, zone func(question int) []netip.Addr) *net.Resolver {
	t.Helper()
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		var asked int
		buf := make([]byte, 1500)
		for {
			n, from, err := l.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			if m.Questions[0].Type == dnsmessage.TypeA {
				asked++
			}
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			for _, a := range zone(asked) {
				if r, ok := record(m.Questions[0], a); ok {
					m.Answers = append(m.Answers, r)
				}
			}
			if b, err := m.Pack(); err == nil {
				_, _ = l.WriteTo(b, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", l.LocalAddr().String())
	}}
}

func record(q dnsmessage.Question, a netip.Addr) (dnsmessage.Resource, bool) {
	r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type, TTL: 0}}
	switch {
	case q.Type == dnsmessage.TypeA && a.Is4():
		r.Body = &dnsmessage.AResource{A: a.As4()}
	case q.Type == dnsmessage.TypeAAAA && a.Is6():
		r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
	default:
		return r, false
	}
	return r, true
}

// counted is an endpoint that reports on which of its addresses it was called. It keeps no connections, so every call
// makes a DNS query.
func counted(t *testing.T, hosts ...string) (port string, calls map[string]*atomic.Int32) {
	t.Helper()
	calls = map[string]*atomic.Int32{}
	port = "0"
	for _, host := range hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		n := &atomic.Int32{}
		calls[host] = n
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
		})}
		srv.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				n.Add(1)
			}
		}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		t.Cleanup(func() { _ = srv.Close(); <-done })
	}
	return port, calls
}

func addrs(texts ...string) []netip.Addr {
	list := make([]netip.Addr, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParseAddr(text)
	}
	return list
}

// TestDNSRebindingReachesNoForbiddenAddress: DNS rebinding. Every other answer of the name server is a forbidden
// address; no connection is made to it.
func TestDNSRebindingReachesNoForbiddenAddress(t *testing.T) {
	port, calls := counted(t, "127.0.0.1", "127.0.0.2")
	dns := nameServer(t, func(question int) []netip.Addr {
		if question%2 == 1 {
			return addrs("127.0.0.1")
		}
		return addrs("127.0.0.2")
	})
	c := caller(t, Options{Networks: "public, 127.0.0.1", Resolver: dns})
	e := endpoint(t, EndpointSpec{URL: "http://rebind.example:" + port + "/"})
	got := map[string]int{}
	for range 20 {
		o := c.Do(t.Context(), e, job())
		got[o.Reason]++
		if o.Reason == "blocked" && (o.Class != Failure || o.EndpointDown || !strings.Contains(o.Err, "127.0.0.2")) {
			t.Fatalf("outcome = %+v", o)
		}
	}
	if n := calls["127.0.0.2"].Load(); n != 0 {
		t.Fatalf("%d connections to the forbidden address", n)
	}
	if got["ok"] != 10 || got["blocked"] != 10 {
		t.Fatalf("outcomes: %v", got)
	}
}

// TestOfMixedAddressesOnlyAllowedOnesAreDialled, in any order and of any family.
func TestOfMixedAddressesOnlyAllowedOnesAreDialled(t *testing.T) {
	port, calls := counted(t, "127.0.0.1", "127.0.0.2")
	for _, zone := range [][]netip.Addr{
		addrs("127.0.0.2", "127.0.0.1"), addrs("127.0.0.1", "127.0.0.2"), addrs("169.254.169.254", "127.0.0.1"),
		addrs("fd00:ec2::254", "127.0.0.1"),
		addrs("::1", "127.0.0.2", "127.0.0.1"),
	} {
		dns := nameServer(t, func(int) []netip.Addr { return zone })
		c := caller(t, Options{Networks: "public,127.0.0.1", Resolver: dns})
		if o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: "http://mixed.example:" + port}),
			job()); o.Class != Success {
			t.Errorf("%v: %+v", zone, o)
		}
	}
	if n := calls["127.0.0.2"].Load(); n != 0 {
		t.Fatalf("%d connections to the forbidden address", n)
	}
}

// TestEveryWayToWriteAForbiddenAddressIsRefused: numbers that C libraries parse as addresses, IPv6 addresses that
// contain IPv4 ones, names before an @, names that resolve to it. The service at that address gets no connection.
func TestEveryWayToWriteAForbiddenAddressIsRefused(t *testing.T) {
	port, calls := counted(t, "127.0.0.1")
	dns := nameServer(t, func(int) []netip.Addr { return addrs("169.254.169.254") })
	for networks, hosts := range map[string][]string{
		"any": {
			"169.254.169.254", "2852039166", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe", "0251.0376.0251.0376",
			"169.254.43518",
			"169.16689662", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::169.254.169.254]",
			"[64:ff9b::a9fe:a9fe]",
			"[64:ff9b:1::a9fe:a9fe]", "[64:ff9b:1:a9fe:a9:fe00::]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]",
			"[fe80::1]",
			"[fd20:ce::254]", "100.100.100.200", "168.63.129.16", "192.0.0.192", "0.0.0.0", "0", "[::]", "[::ffff:0:0]",
			"255.255.255.255", "224.0.0.1", "[ff02::1]",
			"metadata.example", "metadata.google.internal", "169.254.169.254.", "user:pw@169.254.169.254",
			"127.0.0.1@169.254.169.254", "169。254。169。254", "①69.254.169.254",
		},
		"public": {
			"127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]",
			"[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "8.8.8.8@127.0.0.1", "10.0.0.1", "172.31.255.255",
			"192.168.0.1", "100.64.0.1", "198.18.0.1", "[fc00::1]", "[fec0::1]",
		},
	} {
		c := caller(t, Options{Networks: networks, Resolver: dns})
		for _, host := range hosts {
			e, err := CompileEndpoint(EndpointSpec{URL: fmt.Sprintf("http://%s:%s/latest/meta-data", host, port)})
			if err != nil {
				continue // refused when it is saved
			}
			r := job()
			r.Timeout = 2 * time.Second
			if o := c.Do(t.Context(), e, r); o.Class != Failure || (o.Reason != "blocked" && o.Reason != "dns") {
				t.Errorf("%s under %s: %+v", host, networks, o)
			}
		}
	}
	if n := calls["127.0.0.1"].Load(); n != 0 {
		t.Fatalf("%d connections to a forbidden address", n)
	}
}

// TestARedirectLeadsNowhere: it is not followed, and the credentials of the first request are not sent on.
func TestARedirectLeadsNowhere(t *testing.T) {
	port, calls := counted(t, "127.0.0.1")
	for status := 300; status < 309; status++ {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:"+port+"/")
			w.Header().Set("Refresh", "0; url=http://127.0.0.1:"+port+"/")
			w.WriteHeader(status)
		})
		if o := caller(t, Options{}).Do(t.Context(), endpoint(t, EndpointSpec{URL: url}), job()); o.Class != Failure ||
			o.Status != status {
			t.Errorf("%d: %+v", status, o)
		}
	}
	if n := calls["127.0.0.1"].Load(); n != 0 {
		t.Fatalf("a redirect was followed %d times", n)
	}
}

// TestAProbeObeysThePolicy: the endpoint checks and the test call are subject to the policy of every call.
func TestAProbeObeysThePolicy(t *testing.T) {
	port, calls := counted(t, "127.0.0.2")
	dns := nameServer(t, func(int) []netip.Addr { return addrs("127.0.0.2") })
	c := caller(t, Options{Networks: "public,127.0.0.1", Resolver: dns})
	report := c.Probe(t.Context(), endpoint(t, EndpointSpec{URL: "http://probe.example:" + port}), job())
	if !report.Bad() || report.First.Reason != "blocked" {
		t.Errorf("report: %+v", report)
	}
	if n := calls["127.0.0.2"].Load(); n != 0 {
		t.Fatalf("%d connections to the forbidden address", n)
	}
}

// TestAProxyIsNeverUsed: a proxy would dial where the policy does not apply. This test is in-process, because net/http
// reads the variables once.
func TestAProxyIsNeverUsed(t *testing.T) {
	port, calls := counted(t, "127.0.0.1")
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:"+port)
	}
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	dns := nameServer(t, func(int) []netip.Addr { return addrs("127.0.0.1") })
	url = strings.Replace(url, "127.0.0.1", "proxied.example", 1) // net/http uses no proxy for loopback addresses
	if o := caller(t, Options{Resolver: dns}).Do(t.Context(), endpoint(t, EndpointSpec{URL: url}),
		job()); o.Class != Success {
		t.Errorf("outcome = %+v", o)
	}
	if n := calls["127.0.0.1"].Load(); n != 0 {
		t.Fatalf("the proxy was used %d times", n)
	}
}

// TestAClosedCallerKeepsNoConnection: a new policy has a new caller; the connections that the old policy allowed are
// closed with the old caller.
func TestAClosedCallerKeepsNoConnection(t *testing.T) {
	var open atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed:
				open.Add(-1)
			}
		}}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	c := caller(t, Options{})
	e := endpoint(t, EndpointSpec{URL: "http://" + l.Addr().String()})
	if o := c.Do(t.Context(), e, job()); o.Class != Success || open.Load() != 1 {
		t.Fatalf("outcome = %+v, %d connections", o, open.Load())
	}
	c.Close()
	for deadline := time.Now().Add(time.Minute); open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection is still open")
		}
	}
	if o := caller(t, Options{Networks: "public"}).Do(t.Context(), e, job()); o.Reason != "blocked" {
		t.Fatalf("outcome = %+v", o)
	}
}

// TestAPlainClientObeysThePolicy, because alert webhooks use it.
func TestAPlainClientObeysThePolicy(t *testing.T) {
	port, calls := counted(t, "127.0.0.1", "127.0.0.2")
	leads := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:"+port+"/", http.StatusTemporaryRedirect)
	})
	dns := nameServer(t, func(int) []netip.Addr { return addrs("127.0.0.2") })
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:"+port)
	web := caller(t, Options{Networks: "public,127.0.0.1", Resolver: dns}).Client()
	resp, err := web.Post(leads, "text/plain", strings.NewReader("x"))
	if err != nil || resp.StatusCode != http.StatusTemporaryRedirect {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	var blocked *blockedError
	if _, err := web.Get("http://hook.example:" + port); !errors.As(err, &blocked) {
		t.Errorf("a name of a forbidden address: %v", err)
	}
	if a, b := calls["127.0.0.1"].Load(), calls["127.0.0.2"].Load(); a+b != 0 {
		t.Fatalf("forbidden connections: %d, %d", a, b)
	}
}
