package app

import (
	"context"
	"fmt"
	"time"

	"github.com/wakecall/wakecall/internal/journal"
	"github.com/wakecall/wakecall/internal/journal/search"
	"github.com/wakecall/wakecall/internal/reconcile"
)

// newSearcher returns what searches the journals of all hosts.
func (p *parts) newSearcher() (*search.Searcher, error) {
	host, err := journal.Identity(p.cfg.JournalDir())
	if err != nil {
		return nil, fmt.Errorf("prepare the search of journals: %w", err)
	}
	return &search.Searcher{
		Dir: p.cfg.JournalDir(), Host: host, Key: p.registry.DB().Key, TLS: p.cfg.Server.TLSCert != "",
		Web:   search.NewWeb(),
		Peers: func(ctx context.Context) []search.Peer { return p.peers(ctx, host) },
	}, nil
}

// peers returns the other hosts that have journals: those that the shards know, and those that reported where they
// listen.
func (p *parts) peers(ctx context.Context, own string) (peers []search.Peer) {
	names := map[string]bool{own: true}
	for _, h := range reportedListeners(p.registry.Snapshot(), time.Now()) {
		if h.Journal != "" && !names[h.Journal] {
			names[h.Journal] = true
			peers = append(peers, search.Peer{Name: h.Journal, Addrs: h.Listeners["server.addr"]})
		}
	}
	hosts, _ := reconcile.Hosts(ctx, p.queue) // a shard that is down knows the same hosts as the others
	for _, h := range hosts {
		if !names[h.Name] && h.State != reconcile.HostForgotten {
			peers = append(peers, search.Peer{Name: h.Name})
		}
	}
	return peers
}
