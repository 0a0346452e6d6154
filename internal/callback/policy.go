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

func in(a netip.Addr, ps []netip.Prefix) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Control refuses connections to addresses that nothing may call, whatever callback.networks says. It is the Control of
// dialers for other things than callbacks.
func Control(ctx context.Context, network, address string, c syscall.RawConn) error {
	return (&policy{private: true}).control(ctx, network, address, c)
}

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

// reached returns the addresses that a connection to an address may reach: itself, and with IPv6 those behind a
// translator or tunnel.
func reached(a netip.Addr) []netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return []netip.Addr{a}
	}
	return append(embedded(a), a)
}

func (p *policy) check(a netip.Addr) error {
	for _, to := range reached(a) {
		if in(to, never) || (!p.private && !p.permits(to)) {
			return &blockedError{a.Unmap().WithZone("")}
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
	for _, to := range reached(ap.Addr()) {
		if key := p.listener(netip.AddrPortFrom(to, ap.Port())); key != "" {
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
