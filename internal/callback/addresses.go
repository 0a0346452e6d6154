package callback

import "net/netip"

func prefixes(list ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(list))
	for i, s := range list {
		ps[i] = netip.MustParsePrefix(s)
	}
	return ps
}

var (
	// never: this network, link-local (where most clouds have their metadata service), multicast, broadcast, and
	// the metadata services elsewhere: Alibaba, Azure's wire server, Oracle; over IPv6 AWS, Google, Oracle,
	// Akamai, Scaleway.
	never = prefixes("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
		"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
		"::/128", "fe80::/10", "ff00::/8",
		"fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:a9fe:a9fe::1/128", "fd00:42::42/128")
	// private: what IANA's special-purpose registries have besides what never has, and site-local IPv6. A block of
	// protocol assignments is private as a whole: its globally reachable addresses are no endpoints.
	private = prefixes("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
		"192.0.0.0/24", "198.18.0.0/15", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "192.88.99.0/24",
		"240.0.0.0/4",
		"::1/128", "fc00::/7", "fec0::/10", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "100::/64",
		"100:0:0:1::/64")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	ownNAT64  = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215: each network chooses the length of its prefix
	sixToFour = netip.MustParsePrefix("2002::/16")
	teredo    = netip.MustParsePrefix("2001::/32")
	v4compat  = netip.MustParsePrefix("::/96")
	siit      = netip.MustParsePrefix("::ffff:0:0:0/96") // IPv4-translated (RFC 2765)
)

// embedded returns the IPv4 addresses that an IPv6 address may reach through a translator or tunnel. Most have none.
func embedded(a netip.Addr) []netip.Addr {
	b := a.As16()
	v4 := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	switch {
	case nat64.Contains(a), siit.Contains(a), isatap(b):
		return []netip.Addr{v4(12, 13, 14, 15)}
	case ownNAT64.Contains(a): // as in RFC 6052 for prefixes of 48, 56, 64 and 96 bits
		return []netip.Addr{v4(6, 7, 9, 10), v4(7, 9, 10, 11), v4(9, 10, 11, 12), v4(12, 13, 14, 15)}
	case sixToFour.Contains(a):
		return []netip.Addr{v4(2, 3, 4, 5)}
	case teredo.Contains(a):
		return []netip.Addr{netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})}
	case v4compat.Contains(a) && a != netip.IPv6Unspecified() && a != netip.IPv6Loopback():
		return []netip.Addr{v4(12, 13, 14, 15)}
	}
	return nil
}

// isatap reports whether the interface identifier is that of an ISATAP tunnel (RFC 5214, 6.1).
func isatap(b [16]byte) bool { return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe }
