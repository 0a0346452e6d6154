package app

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"time"

	"github.com/wakecall/wakecall/app/setup"
	"github.com/wakecall/wakecall/conf"
	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/registry"
)

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
		if !pause.For(ctx, rotationsEvery) {
			return nil
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
