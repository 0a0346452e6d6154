package callback

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// policy decides which addresses may be dialled. It checks the address of the connection, after DNS, so DNS rebinding
// cannot bypass it.
type policy struct {
	private bool           // loopback and private networks are allowed
	allowed []netip.Prefix // in addition to the public ones

	listener func(netip.AddrPort) string // see Options.Listener
}

// parseNetworks parses callback.networks: any, public, or a list of networks that are allowed in addition to the public
// ones.
func parseNetworks(s string) (policy, error) {
	switch s {
	case "", "any":
		return policy{private: true}, nil
	case "public":
		return policy{}, nil
	}
	var p policy
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "public" {
			continue
		}
		n, err := netip.ParsePrefix(part)
		if err != nil {
			a, aerr := netip.ParseAddr(part)
			if aerr != nil {
				return p, fmt.Errorf("callback.networks: %q must be any, public or a network such as 10.1.0.0/16", part)
			}
			n = netip.PrefixFrom(a, a.BitLen())
		}
		p.allowed = append(p.allowed, n.Masked())
	}
	return p, nil
}

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

func in(a netip.Addr, ps []netip.Prefix) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}

// embedded returns the IPv4 addresses that an IPv6 address may reach through a translator or tunnel. Most have none.
func embedded(a netip.Addr) []netip.Addr {
	if a.Is4() {
		return nil
	}
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

// blockedError is returned for an address that must not be called.
type blockedError struct{ addr netip.Addr }

func (e *blockedError) Error() string {
	return "calls to " + e.addr.String() + " are not allowed (link-local, metadata and multicast addresses never are;" +
		" loopback and private networks are if callback.networks allows them)"
}

// listenerError is returned for an address at which Wakecall itself listens.
type listenerError struct {
	addr netip.AddrPort
	key  string
}

func (e *listenerError) Error() string {
	return "calls to " + e.addr.String() + " are not allowed: Wakecall itself listens there (" + e.key + "); " +
		"callback.own_listeners can allow it"
}

func (p *policy) check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	for _, leadsTo := range append(embedded(a), a) {
		if in(leadsTo, never) || (!p.private && !p.permits(leadsTo)) {
			return &blockedError{a}
		}
	}
	return nil
}

// permits checks a single address. Allowing a tunnel's network does not allow the addresses behind it.
func (p *policy) permits(a netip.Addr) bool { return !in(a, private) || in(a, p.allowed) }

// checkListener returns an error for an address that leads to one of Wakecall's own listeners.
func (p *policy) checkListener(ap netip.AddrPort) error {
	if p.listener == nil {
		return nil
	}
	a := ap.Addr().Unmap().WithZone("")
	for _, leadsTo := range append(embedded(a), a) {
		if key := p.listener(netip.AddrPortFrom(leadsTo, ap.Port())); key != "" {
			return &listenerError{ap, key}
		}
	}
	return nil
}

// control is called by the dialer before it connects.
func (p *policy) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse address %q: %w", address, err)
	}
	if err := p.check(ap.Addr()); err != nil {
		return err
	}
	return p.checkListener(ap)
}
