package callback

import (
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestThePolicyJudgesTheDialledAddress(t *testing.T) {
	cases := map[string][2]bool{ // allowed under any, under public
		"8.8.8.8": {true, true}, "127.0.0.1": {true, false}, "10.1.2.3": {true, false}, "192.168.1.1": {true, false},
		"100.64.1.1": {true, false}, "::1": {true, false}, "fd12::1": {true, false}, "2606:4700::1111": {true, true},
		"::ffff:8.8.8.8": {true, true}, "::ffff:10.0.0.1": {true, false}, "169.254.169.254": {},
		"::ffff:169.254.169.254": {},
		"64:ff9b::a9fe:a9fe":     {}, "2002:a9fe:a9fe::1": {}, "2001:0:1::5601:5601": {}, "fd00:ec2::254": {},
		"fe80::1":      {},
		"fe80::1%eth0": {}, "0.0.0.0": {}, "::": {}, "224.0.0.1": {}, "ff02::1": {}, "255.255.255.255": {},
		"100.100.100.200": {},
		"64:ff9b::a00:1":  {true, false}, "::169.254.169.254": {}, "0.1.2.3": {},
		"fd00:a9fe:a9fe::1": {}, "fd00:42::42": {}, "fd00:c1::a9fe:a9fe": {}, "fd00:ec2::23": {}, "fd20:ce::254": {},
		"168.63.129.16": {}, "192.0.0.192": {}, "::ffff:0:169.254.169.254": {}, "::ffff:0:100.100.100.200": {},
		"::ffff:0:10.0.0.1": {true, false}, "::ffff:0:8.8.8.8": {true, true}, "fe80::5efe:a9fe:a9fe": {},
		"fd12::5efe:169.254.169.254": {}, "2606:4700::200:5efe:10.0.0.1": {true, false}, "fd00:43::42": {true, false},
	}
	for text, want := range cases {
		a := netip.MustParseAddr(text)
		for i, networks := range []string{"any", "public"} {
			p, err := parseNetworks(networks)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.check(a) == nil; got != want[i] {
				t.Errorf("%s under %s: allowed = %v", text, networks, got)
			}
		}
	}
	p, err := parseNetworks("10.1.0.0/16, 127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"10.1.9.9": true, "10.2.0.1": false, "127.0.0.1": true, "8.8.8.8": true,
		"169.254.169.254": false} {
		if got := p.check(netip.MustParseAddr(text)) == nil; got != want {
			t.Errorf("%s under a list: allowed = %v", text, got)
		}
	}
	p, err = parseNetworks("10.0.0.0/8, ::/0")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"64:ff9b::a00:1": true, "64:ff9b::c0a8:101": false,
		"2002:c0a8:101::1": false,
		"fd12::1":          true, "64:ff9b::a9fe:a9fe": false} {
		if got := p.check(netip.MustParseAddr(text)) == nil; got != want {
			t.Errorf("%s behind a listed tunnel: allowed = %v", text, got)
		}
	}
	if _, err := parseNetworks("everything"); err == nil {
		t.Error("invalid networks were accepted")
	}
}

func TestBlockedAddressesAreNeverReached(t *testing.T) {
	var reached atomic.Int32
	url := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	port := url[strings.LastIndex(url, ":"):]
	c := caller(t, Options{Networks: "public"})
	for _, host := range []string{"127.0.0.1", "localhost", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]"} {
		r := job()
		r.Timeout = time.Second
		o := c.Do(t.Context(), endpoint(t, EndpointSpec{URL: "http://" + host + port}), r)
		if o.Class != Failure || (o.Reason != "blocked" && o.Reason != "dns") {
			t.Errorf("%s: %+v", host, o)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Fatalf("a forbidden address was reached %d times", n)
	}
}

// TestAListenerIsNotCalled, however its address is written.
func TestAListenerIsNotCalled(t *testing.T) {
	ours := netip.MustParseAddrPort("10.0.0.1:6789")
	p := policy{private: true, listener: func(a netip.AddrPort) string {
		if a == ours {
			return "server.addr"
		}
		return ""
	}}
	for address, want := range map[string]bool{
		"10.0.0.1:6789": false, "[::ffff:10.0.0.1]:6789": false, "[64:ff9b::a00:1]:6789": false,
		"10.0.0.1:6790": true, "10.0.0.2:6789": true,
	} {
		if got := p.control(t.Context(), "tcp", address, nil) == nil; got != want {
			t.Errorf("%s: allowed = %v", address, got)
		}
	}
}
