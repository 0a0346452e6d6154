package app

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/journal"
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

// listenersSetting is the registry's setting with the hosts' listeners, by the names of the hosts.
const listenersSetting = "listeners"

// hostListeners are the listeners that other hosts can reach.
type hostListeners struct {
	At        time.Time                   `json:"at"`
	Listeners map[string][]netip.AddrPort `json:"listeners"` // by key
	Journal   string                      `json:"journal"`   // the identity of the host's journal
}

const (
	reportListenersEvery = 24 * time.Hour
	listenersKnownFor    = 7 * 24 * time.Hour // after its last report, a host's addresses may belong to others
)

// reportedListeners returns the listeners of the hosts that have reported lately.
func reportedListeners(s *registry.Snapshot, now time.Time) map[string]hostListeners {
	hosts := map[string]hostListeners{}
	_, _ = s.Setting(listenersSetting, &hosts) // without it, no host is known
	dropOldListeners(hosts, now)
	return hosts
}

func dropOldListeners(hosts map[string]hostListeners, now time.Time) {
	maps.DeleteFunc(hosts, func(_ string, h hostListeners) bool { return now.Sub(h.At) > listenersKnownFor })
}

// reportListeners stores where this host listens, when that changes and once a day.
func (p *parts) reportListeners(ctx context.Context) error {
	for {
		if err := p.reportListenersOnce(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.log.Warn("cannot report the listeners to other hosts; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rotationsEvery):
		}
	}
}

func (p *parts) reportListenersOnce(ctx context.Context, now time.Time) error {
	if !p.registry.Up() {
		return nil
	}
	identity, err := journal.Identity(p.cfg.JournalDir())
	if err != nil {
		return err
	}
	name, mine := setup.HostName(p.cfg), hostListeners{now.UTC(), reachableListeners(ctx, p.cfg, p.bound), identity}
	was := reportedListeners(p.registry.Snapshot(), now)[name]
	same := len(was.Listeners)+len(mine.Listeners) == 0 ||
		was.Journal == mine.Journal && reflect.DeepEqual(was.Listeners, mine.Listeners)
	if same && (len(mine.Listeners) == 0 || now.Sub(was.At) < reportListenersEvery) {
		return nil
	}
	hosts := map[string]hostListeners{}
	return p.registry.EditSetting(ctx, name, listenersSetting, &hosts, func() error {
		dropOldListeners(hosts, now)
		hosts[name] = mine
		return nil
	})
}

// reachableListeners returns the addresses of this host's listeners, by key, except those that only this host reaches.
func reachableListeners(ctx context.Context, cfg *conf.Config, bound map[string]string) map[string][]netip.AddrPort {
	list := map[string][]netip.AddrPort{}
	for _, l := range cfg.Listeners() {
		addr := boundAddr(l, bound)
		for _, a := range addrsOf(ctx, addr) {
			if a.IsGlobalUnicast() {
				list[l.Key] = append(list[l.Key], netip.AddrPortFrom(a, portOf(addr)))
			}
		}
	}
	return list
}

// addrsOf returns the addresses that an address to listen on stands for.
func addrsOf(ctx context.Context, addr string) []netip.Addr {
	host, _, _ := net.SplitHostPort(addr)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		list, _ := localAddrs()
		return list
	}
	list, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i, a := range list {
		list[i] = a.Unmap()
	}
	return list
}
