package callback

import (
	"net/netip"
	"testing"
)

// special are the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890), and whether `public` allows an
// entry: those that are globally reachable, unless they are parts of a block that is not.
var special = map[string]bool{
	"0.0.0.0/8": false, "0.0.0.0/32": false, "10.0.0.0/8": false, "100.64.0.0/10": false, "127.0.0.0/8": false,
	"169.254.0.0/16": false, "172.16.0.0/12": false, "192.0.0.0/24": false, "192.0.0.0/29": false,
	"192.0.0.8/32": false, "192.0.0.9/32": false, "192.0.0.10/32": false, "192.0.0.170/32": false,
	"192.0.0.171/32": false, "192.0.2.0/24": false, "192.31.196.0/24": true, "192.52.193.0/24": true,
	"192.88.99.0/24": false, "192.88.99.2/32": false, "192.168.0.0/16": false, "192.175.48.0/24": true,
	"198.18.0.0/15": false, "198.51.100.0/24": false, "203.0.113.0/24": false, "240.0.0.0/4": false,
	"255.255.255.255/32": false,

	"::1/128": false, "::/128": false, "::ffff:0:0/96": false, "100::/64": false, "100:0:0:1::/64": false,
	"2001::/23": false, "2001::/32": false, "2001:1::1/128": false, "2001:1::2/128": false, "2001:1::3/128": false,
	"2001:2::/48": false, "2001:3::/32": false, "2001:4:112::/48": false, "2001:10::/28": false,
	"2001:20::/28": false, "2001:30::/28": false, "2001:db8::/32": false, "2620:4f:8000::/48": true,
	"3fff::/20": false, "5f00::/16": false, "fc00::/7": false, "fe80::/10": false,
	// Translators and 6to4 lead to IPv4 addresses, which are checked; these end in 0.0.0.0 and 255.255.255.255.
	"64:ff9b::/96": false, "64:ff9b:1::/48": false, "2002::/16": false,
}

func TestPublicExcludesSpecialPurposeAddresses(t *testing.T) {
	public, err := parseNetworks("public")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range special {
		n := netip.MustParsePrefix(text)
		if n.Addr().Unmap() != n.Addr() { // IPv4-mapped
			n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
		}
		for _, a := range []netip.Addr{n.Addr(), last(n)} {
			if got := public.check(a) == nil; got != want {
				t.Errorf("%s of %s: allowed = %v", a, text, got)
			}
		}
	}
}

// last returns the last address of a network.
func last(n netip.Prefix) netip.Addr {
	b := n.Addr().AsSlice()
	for i := n.Bits(); i < n.Addr().BitLen(); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
