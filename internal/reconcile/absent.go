package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
	"github.com/wakecall/wakecall/internal/store"
)

// Host is what the shards know about a host.
type Host struct {
	Name   string    `json:"host"`
	Seen   time.Time `json:"seen,omitzero"`         // when it attended last
	State  string    `json:"state"`                 // running, stopped, silent or forgotten
	Absent []string  `json:"absent_from,omitempty"` // shards that wait for its journal
}

// States of a host.
const hostRunning, hostSilent = "running", "silent"

// HostForgotten is the state of a host that will not be back.
const HostForgotten = "forgotten"

// silentAfter is how long a running host may be silent: it attends at least every ten seconds.
const silentAfter = 30 * time.Second

// Hosts lists the hosts that the shards know, by name.
func Hosts(ctx context.Context, q *queue.Queue) ([]Host, error) {
	hosts := map[string]*Host{}
	err := q.Shards.EachBucket(func(b *store.Bucket) error {
		began, redis := time.Now(), b.Shard().Redis()
		clock, err := b.Clock(ctx)
		if err != nil {
			return err
		}
		seen, err := redis.HGetAll(ctx, b.Key("hosts")).Result()
		if err != nil {
			return b.Failed(ctx, began, err)
		}
		for field, value := range seen {
			if name, is := strings.CutPrefix(field, "at "); is {
				hostOf(hosts, name).add(store.Number(value), seen["state "+name], clock.Now)
			}
		}
		away, err := redis.HKeys(ctx, b.Key("absent")).Result()
		if err != nil {
			return b.Failed(ctx, began, err)
		}
		for _, name := range away {
			if h := hostOf(hosts, name); !slices.Contains(h.Absent, b.Name()) {
				h.Absent = append(h.Absent, b.Name())
			}
		}
		return nil
	})
	list := make([]Host, 0, len(hosts))
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		list = append(list, *hosts[name])
	}
	return list, err
}

func hostOf(hosts map[string]*Host, name string) *Host {
	if hosts[name] == nil {
		hosts[name] = &Host{Name: name, State: hostSilent}
	}
	return hosts[name]
}

// add merges what attend.lua and open_bucket.lua have stored about the host.
func (h *Host) add(at int64, state string, now time.Time) {
	seen := time.UnixMilli(at).UTC()
	if !seen.After(h.Seen) {
		return
	}
	h.Seen = seen
	switch {
	case state == HostForgotten:
		h.State = HostForgotten
	case state == "left":
		h.State = "stopped"
	case now.Sub(seen) > silentAfter:
		h.State = hostSilent
	default:
		h.State = hostRunning
	}
}

// ForgetHost tells all shards that a host will not be back. What only its journal has is lost, and should it return, it
// does not replay its journal. It must not be running. A bucket that is being compared cannot forget it.
func ForgetHost(ctx context.Context, q *queue.Queue, host string) error {
	hosts, err := Hosts(ctx, q)
	if err != nil {
		return fmt.Errorf("forget host %s: %w", host, err)
	}
	at := slices.IndexFunc(hosts, func(h Host) bool { return h.Name == host })
	switch {
	case at < 0:
		return fmt.Errorf("no shard knows a host %s", host)
	case hosts[at].State == hostRunning:
		return fmt.Errorf("host %s is running: stop it first", host)
	}
	return q.Shards.EachBucket(func(b *store.Bucket) error {
		o, err := OpenBucket(ctx, b, ComparedBy{Host: host, Mode: ComparedForget})
		if err == nil && !o.Open {
			err = b.Unavailable(store.ReasonComparing, errors.New("it is being compared with the journals"))
		}
		return err
	})
}
