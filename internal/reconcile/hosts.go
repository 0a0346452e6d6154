package reconcile

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// hosts remembers the other hosts, and the revisions of all shards, from the answers of the shards. It stores both in a
// file for the next process: a shard that has lost everything knows neither that it had jobs nor who else may have
// them in a journal.
type hosts struct {
	path string

	mu        sync.Mutex
	seen      map[string]sighting
	revisions map[string][]int64 // of each shard's buckets, when they were last attended; 0: unknown
	saved     time.Time
}

// hostsFile is the content of the file.
type hostsFile struct {
	Hosts     map[string]sighting `json:"hosts"`
	Revisions map[string][]int64  `json:"revisions"`
}

type sighting struct {
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
	var f hostsFile
	if b, err := os.ReadFile(h.path); err != nil || json.Unmarshal(b, &f) != nil {
		f = hostsFile{}
	}
	h.seen, h.revisions = f.Hosts, f.Revisions
	if h.seen == nil {
		h.seen = map[string]sighting{}
	}
	if h.revisions == nil {
		h.revisions = map[string][]int64{}
	}
}

// saw merges what a bucket knows about other hosts, and its revision, and stores it if it is news.
func (h *hosts) saw(b *store.Bucket, seen []HostSeen, revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	revisions := h.revisions[b.Name()]
	if n := len(b.Shard().Buckets()); len(revisions) != n {
		revisions = make([]int64, n)
		copy(revisions, h.revisions[b.Name()])
		h.revisions[b.Name()] = revisions
	}
	news := now.Sub(h.saved) > saveEvery || revision > 0 && revisions[b.Number()] == 0
	revisions[b.Number()] = revision
	for _, s := range seen {
		was, known := h.seen[s.Host]
		last := s.At.UnixMilli()
		switch {
		case s.At.IsZero(): // forgotten
			delete(h.seen, s.Host)
			news = news || known
		case last > was.Seen:
			h.seen[s.Host] = sighting{last, now.UnixMilli()}
			news = news || !known
		}
	}
	maps.DeleteFunc(h.seen, func(_ string, w sighting) bool { return now.Sub(time.UnixMilli(w.At)) > knownFor })
	if !news {
		return
	}
	h.saved = now
	if b, err := json.Marshal(hostsFile{h.seen, h.revisions}); err == nil {
		_ = os.WriteFile(h.path+".new", b, 0o600) // not essential: shards know the hosts, too
		_ = os.Rename(h.path+".new", h.path)
	}
}

func (h *hosts) known() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.seen))
}

// revision returns the revision of a bucket; 0: unknown.
func (h *hosts) revision(b *store.Bucket) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if revisions := h.revisions[b.Name()]; b.Number() < len(revisions) {
		return revisions[b.Number()]
	}
	return 0
}

func newHosts(dir string) *hosts {
	h := &hosts{path: filepath.Join(dir, hostsName)}
	h.load()
	return h
}
