package recovery

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/queue"
)

// hosts remembers which hosts are at work, from what all shards tell, and in a file for the next process: a shard that
// has lost everything cannot tell.
type hosts struct {
	self, path string

	mu    sync.Mutex
	heard map[string]heard
	saved time.Time
}

type heard struct {
	Seen int64 `json:"seen"` // when it attended last, by a shard's clock, Unix ms
	At   int64 `json:"at"`   // when that was new here, by this host's clock, Unix ms
}

const (
	hostsName = ".hosts"
	saveEvery = 20 * time.Second
	// atWork is how long after its last word a host is waited for.
	atWork = time.Minute
)

// loadHosts starts without a memory when there is none that can be read.
func loadHosts(dir, self string) *hosts {
	h := &hosts{self: self, path: filepath.Join(dir, hostsName), heard: map[string]heard{}}
	if b, err := os.ReadFile(h.path); err == nil && json.Unmarshal(b, &h.heard) != nil {
		h.heard = map[string]heard{}
	}
	return h
}

// hear takes in what a shard tells of hosts.
func (h *hosts) hear(seen []queue.HostSeen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, s := range seen {
		switch at := s.At.UnixMilli(); {
		case s.At.IsZero():
			h.heard[s.Host] = heard{} // it has left
		case at != h.heard[s.Host].Seen:
			h.heard[s.Host] = heard{at, now.UnixMilli()}
		}
	}
	if now.Sub(h.saved) < saveEvery {
		return
	}
	h.saved = now
	if b, err := json.Marshal(h.heard); err == nil {
		_ = os.WriteFile(h.path+".new", b, 0o600) // only a memory: without it other hosts are not waited for
		_ = os.Rename(h.path+".new", h.path)
	}
}

// others are the hosts beside this one that were heard of as lately as any.
func (h *hosts) others() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	newest := int64(0)
	for _, w := range h.heard {
		newest = max(newest, w.At)
	}
	var list []string
	for host, w := range h.heard {
		if host != h.self && w.At > 0 && newest-w.At < atWork.Milliseconds() {
			list = append(list, host)
		}
	}
	slices.Sort(list)
	return list
}

// alone says whether no other host was ever heard of. One that has left may come back with lines of its own.
func (h *hosts) alone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, self := h.heard[h.self]
	return len(h.heard) == 0 || self && len(h.heard) == 1
}
