package app

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/registry"
)

// Most gateways trust everyone who reaches them, and /metrics does, too. So callbacks to Wakecall's own listeners are
// refused unless callback.own_listeners allows them.

// ownListeners knows the listeners of all hosts that callbacks may not reach.
type ownListeners struct {
	allowed  []string          // keys
	ports    map[uint16]string // the keys of this host's refused listeners
	snapshot func() *registry.Snapshot
}

// newOwnListeners returns the refused listeners. bound has the addresses of those that are configured with port 0.
func newOwnListeners(cfg *conf.Config, bound map[string]string, snapshot func() *registry.Snapshot) *ownListeners {
	o := &ownListeners{
		allowed: strings.Split(cfg.Callback.OwnListeners, ","), ports: map[uint16]string{}, snapshot: snapshot,
	}
	for _, l := range cfg.Listeners() {
		if !slices.Contains(o.allowed, l.Key) {
			o.ports[portOf(boundAddr(l, bound))] = l.Key
		}
	}
	return o
}

// boundAddr returns the address on which a listener really listens.
func boundAddr(l conf.Listener, bound map[string]string) string {
	if addr := bound[l.Key]; addr != "" && portOf(l.Addr) == 0 {
		return addr
	}
	return l.Addr
}

func portOf(addr string) uint16 {
	_, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.ParseUint(text, 10, 16) // checked when the configuration was loaded
	return uint16(port)
}

// at returns the key of the refused listener at an address, "" for none. Every address of this machine with a
// listener's port counts, whichever the listener was configured with.
func (o *ownListeners) at(a netip.AddrPort) string {
	if key := o.ports[a.Port()]; key != "" && isLocal(a.Addr()) {
		return key
	}
	for _, host := range reportedListeners(o.snapshot(), time.Now()) {
		for key, addrs := range host.Listeners {
			if slices.Contains(addrs, a) && !slices.Contains(o.allowed, key) {
				return key + " of another host"
			}
		}
	}
	return ""
}

// isLocal reports whether an address is one of this machine, also while its interfaces cannot be listed.
func isLocal(a netip.Addr) bool {
	local, err := localAddrs()
	return err != nil || a.IsLoopback() || slices.Contains(local, a)
}

// localAddrs returns the addresses of all interfaces. They are read anew each time, because they may change.
func localAddrs() ([]netip.Addr, error) {
	networks, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, n := range networks {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			list = append(list, p.Addr().Unmap())
		}
	}
	return list, nil
}
