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

// hosts remembers which hosts are at work, from what they say in all shards, and in a file for the next process: a shard that has lost
// everything cannot tell.
type hosts struct {
	self, path string

	mu    sync.Mutex
	heard map[string]heard
	saved time.Time
}

type heard struct {
	Until int64 `json:"until"` // its last word, by its clock
	At    int64 `json:"at"`    // when that was new here, by this host's clock
}

const (
	hostsName = ".hosts"
	saveEvery = 20 * time.Second
)

// loadHosts starts without a memory when there is none that can be read.
func loadHosts(dir, self string) *hosts {
	h := &hosts{self: self, path: filepath.Join(dir, hostsName), heard: map[string]heard{}}
	if b, err := os.ReadFile(h.path); err == nil && json.Unmarshal(b, &h.heard) != nil {
		h.heard = map[string]heard{}
	}
	return h
}

// hear takes in what hosts say in a shard.
func (h *hosts) hear(checks []queue.Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, c := range checks {
		if until := c.Until.UnixMilli(); until > h.heard[c.Host].Until {
			h.heard[c.Host] = heard{until, now.UnixMilli()}
		}
	}
	if now.Sub(h.saved) < saveEvery {
		return
	}
	h.saved = now
	if b, err := json.Marshal(h.heard); err == nil {
		_ = os.WriteFile(h.path+".new", b, 0o600) // only a memory: without it nothing is lost, but more may be called twice
		_ = os.Rename(h.path+".new", h.path)
	}
}

// alive notes that a host was heard of.
func (h *hosts) alive(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.heard[host]
	h.heard[host] = heard{max(w.Until, 1), time.Now().UnixMilli()} // 1 is older than any word of its own
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
		if host != h.self && newest-w.At < atWork.Milliseconds() {
			list = append(list, host)
		}
	}
	slices.Sort(list)
	return list
}

func (h *hosts) forget(gone []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, host := range gone {
		delete(h.heard, host)
	}
}
