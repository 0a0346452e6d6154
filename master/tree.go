package master

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/master/child"
)

// Tree describes the master and its processes.
type Tree struct {
	Pid       int       `json:"pid"`
	Version   string    `json:"version,omitempty"`
	StartedAt time.Time `json:"started_at"`
	RSS       int64     `json:"rss"`
	Processes []Process `json:"processes"`
}

// Newer returns the version of the processes if it differs from the master's, otherwise "". A reload starts the
// processes from a new binary, but only a restart starts the master from it.
func (t *Tree) Newer() string {
	for _, p := range t.Processes {
		if p.Version != "" && t.Version != "" && p.Version != t.Version {
			return p.Version
		}
	}
	return ""
}

// Process describes one process in the tree.
type Process struct {
	Role      string          `json:"role"`
	Number    int             `json:"number,omitempty"`
	Pid       int             `json:"pid"`
	Version   string          `json:"version,omitempty"` // Wakecall's version; set when it is ready
	State     string          `json:"state"`             // running, starting, waiting (for a restart), silent, adopted
	StartedAt time.Time       `json:"started_at,omitzero"`
	Restarts  int             `json:"restarts"`
	LastExit  string          `json:"last_exit,omitempty"`
	ExitedAt  time.Time       `json:"exited_at,omitzero"`
	RSS       int64           `json:"rss"` // bytes
	Status    json.RawMessage `json:"status,omitempty"`
}

// tree queries the status of all processes concurrently.
func (m *Master) tree() *Tree {
	slots := m.all()
	t := &Tree{
		Pid: os.Getpid(), Version: m.opts().Version, StartedAt: m.started, RSS: rss(os.Getpid()),
		Processes: make([]Process, len(slots)),
	}
	var wg sync.WaitGroup
	for i, s := range slots {
		wg.Go(func() { t.Processes[i] = s.describe() })
	}
	wg.Wait()
	if m.redis != nil {
		t.Processes = append(t.Processes, m.redis.describe())
	}
	return t
}

func (s *slot) describe() Process {
	s.mu.Lock()
	p := s.current
	d := Process{Role: s.spec.Name, State: "waiting", Restarts: s.restarts, LastExit: s.lastExit, ExitedAt: s.exitedAt}
	if s.spec.Numbered {
		d.Number = s.number
	}
	s.mu.Unlock()
	if p == nil {
		return d
	}
	d.Pid, d.StartedAt, d.State = p.cmd.Process.Pid, p.started.UTC(), "starting"
	d.RSS = rss(d.Pid)
	if p.isReady() {
		d.State, d.Version = "running", p.version
	}
	if r, err := p.ask(child.AskStatus, askLimit); err == nil {
		d.Status = r.Status
	} else {
		d.State = "silent"
	}
	return d
}

func (r *redisServer) describe() Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := Process{
		Role: "redis-server", Pid: r.pid, State: "running", StartedAt: r.started, Restarts: r.restarts,
		LastExit: r.lastExit,
		RSS:      rss(r.pid),
	}
	switch {
	case r.pid == 0 || syscall.Kill(r.pid, 0) != nil:
		d.State, d.Pid = "waiting", 0
	case r.adopted:
		d.State = "adopted"
	}
	return d
}

// rss returns a process's resident memory in bytes; 0 if it has ended.
func rss(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(f[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
