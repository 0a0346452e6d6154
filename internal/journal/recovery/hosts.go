package recovery

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/queue"
)

// hosts remembers the other hosts, from the answers of all shards, and stores them in a file for the next process: a
// shard that has lost everything does not know them, and its jobs may be in their journals.
type hosts struct {
	path string

	mu    sync.Mutex
	heard map[string]heard
	saved time.Time
}

type heard struct {
	Seen int64 `json:"seen"` // when it last attended, by a shard's clock, Unix ms
	At   int64 `json:"at"`   // when this host learned that, by its own clock, Unix ms
}

const (
	hostsName = ".hosts"
	saveEvery = time.Hour
	// knownFor is how long a silent host is remembered. A shard does the same, see attend.lua.
	knownFor = 7 * 24 * time.Hour
)

// load reads the file. It begins with no hosts if the file cannot be read.
func (h *hosts) load() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = map[string]heard{}
	if b, err := os.ReadFile(h.path); err == nil && json.Unmarshal(b, &h.heard) != nil {
		h.heard = map[string]heard{}
	}
}

// hear merges what a shard knows about other hosts, and stores it if it is news.
func (h *hosts) hear(seen []queue.HostSeen) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	news := now.Sub(h.saved) > saveEvery
	for _, s := range seen {
		was, known := h.heard[s.Host]
		last := s.At.UnixMilli()
		switch {
		case s.At.IsZero(): // forgotten
			delete(h.heard, s.Host)
			news = news || known
		case last > was.Seen:
			h.heard[s.Host] = heard{last, now.UnixMilli()}
			news = news || !known
		}
	}
	maps.DeleteFunc(h.heard, func(_ string, w heard) bool { return now.Sub(time.UnixMilli(w.At)) > knownFor })
	if !news {
		return
	}
	h.saved = now
	if b, err := json.Marshal(h.heard); err == nil {
		_ = os.WriteFile(h.path+".new", b, 0o600) // not essential: shards know the hosts, too
		_ = os.Rename(h.path+".new", h.path)
	}
}

func (h *hosts) known() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.heard))
}

func newHosts(dir string) *hosts {
	h := &hosts{path: filepath.Join(dir, hostsName)}
	h.load()
	return h
}
