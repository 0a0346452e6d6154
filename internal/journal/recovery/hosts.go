package recovery

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
)

// hosts remembers which hosts are running, from the answers of all shards, and stores them in a file for the next
// process: a shard that has lost everything does not know them.
type hosts struct {
	self, path string
	away       time.Duration // how long after its last sign of life to wait for a host

	mu    sync.Mutex
	heard map[string]heard
	saved time.Time
}

type heard struct {
	Seen int64 `json:"seen"` // when it last attended, by a shard's clock, Unix ms
	At   int64 `json:"at"`   // when this host learned that, by its own clock, Unix ms
	Left bool  `json:"left"` // it reported that it stops
}

const (
	hostsName = ".hosts"
	saveEvery = 20 * time.Second
)

// loadHosts reads the file. It begins with no hosts if the file cannot be read.
func loadHosts(dir, self string, away time.Duration) *hosts {
	h := &hosts{self: self, path: filepath.Join(dir, hostsName), away: away, heard: map[string]heard{}}
	if b, err := os.ReadFile(h.path); err == nil && json.Unmarshal(b, &h.heard) != nil {
		h.heard = map[string]heard{}
	}
	return h
}

// hear merges what a shard knows about hosts at a time by its clock.
func (h *hosts) hear(at time.Time, seen []queue.HostSeen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, s := range seen {
		last := s.At.UnixMilli()
		switch {
		case s.Left && at.Sub(s.At) > h.away:
			h.heard[s.Host] = heard{}
		case last != h.heard[s.Host].Seen:
			h.heard[s.Host] = heard{last, now.UnixMilli(), s.Left}
		}
	}
	if now.Sub(h.saved) < saveEvery {
		return
	}
	h.saved = now
	if b, err := json.Marshal(h.heard); err == nil {
		_ = os.WriteFile(h.path+".new", b, 0o600) // not essential: without it comparisons do not wait for other hosts
		_ = os.Rename(h.path+".new", h.path)
	}
}

// others returns the other hosts that attended as lately as any, and those that have just stopped: a host that restarts
// while a shard loses its data is back soon, and only its journal knows what was deleted through it.
func (h *hosts) others() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	newest := int64(0)
	for _, w := range h.heard {
		newest = max(newest, w.At)
	}
	var list []string
	for host, w := range h.heard {
		gone := newest - w.At
		if w.Left {
			gone = time.Now().UnixMilli() - w.At
		}
		if host != h.self && w.At > 0 && gone < h.away.Milliseconds() {
			list = append(list, host)
		}
	}
	slices.Sort(list)
	return list
}

// alone reports whether no other host was ever known. One that has left may return with lines of its own.
func (h *hosts) alone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, self := h.heard[h.self]
	return len(h.heard) == 0 || self && len(h.heard) == 1
}
