package master

import (
	"encoding/json"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/message"
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

// States of a process.
const (
	StateStarting = "starting"
	StateRunning  = "running"
	StateAdopted  = "adopted" // a redis-server that an earlier master started
	StateWaiting  = "waiting" // for its start, or its next start
	StateSilent   = "silent"  // does not answer
	StateEnded    = "ended"   // the process of a socket in data_dir was killed
)

// IsReady reports whether the process does its work.
func (p *Process) IsReady() bool { return p.State == StateRunning || p.State == StateAdopted }

// Process describes one process in the tree.
type Process struct {
	Role      string          `json:"role"`
	Number    int             `json:"number,omitempty"`
	Pid       int             `json:"pid"`
	Version   string          `json:"version,omitempty"` // Wakecall's version; set when it is ready
	State     string          `json:"state"`             // see the constants
	Health    string          `json:"health,omitempty"`  // URL that answers 200 while the process serves clients
	StartedAt time.Time       `json:"started_at,omitzero"`
	Restarts  int             `json:"restarts"`
	LastExit  string          `json:"last_exit,omitempty"`
	ExitedAt  time.Time       `json:"exited_at,omitzero"`
	Deaths    int             `json:"deaths,omitempty"` // how often it died, each time within ten minutes of the last
	Dying     time.Time       `json:"dying,omitzero"`   // since when, if it last died less than ten minutes ago
	RSS       int64           `json:"rss"`              // bytes
	Status    json.RawMessage `json:"status,omitempty"`
}

// Status is what a process reports about itself; other roles have other parts.
type Status struct {
	InFlight    *int `json:"in_flight"`
	Concurrency int  `json:"concurrency"`
	Findings    []struct {
		Shard  string          `json:"shard"`
		Kind   string          `json:"kind"`
		Detail message.Message `json:"detail"`
		Since  time.Time       `json:"since"`
	} `json:"findings"`
	Services    []ServiceState   `json:"services"`
	Journal     string           `json:"journal"`     // why the journal cannot be written
	Refuses     string           `json:"refuses"`     // why every request of clients is refused
	Connections map[string]int64 `json:"connections"` // connections of a gateway, by protocol
}

// ServiceState describes a service of a process.
type ServiceState struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Restarts int       `json:"restarts"`
	Since    time.Time `json:"since"`           // when it entered the state
	Error    string    `json:"error,omitempty"` // the last failure
}

// Reported returns the process's status, as far as this version knows it.
func (p *Process) Reported() (s Status) {
	if len(p.Status) > 0 {
		_ = json.Unmarshal(p.Status, &s)
	}
	return s
}

// Failing returns the services that are not running.
func (s *Status) Failing() []ServiceState {
	return slices.DeleteFunc(slices.Clone(s.Services), func(one ServiceState) bool { return one.State == "running" })
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
	if len(slots) == 0 { // its redis-server loads its data first
		t.Processes = waiting(m.opts().Roles)
	}
	if m.redis != nil {
		t.Processes = append(t.Processes, m.redis.describe())
	}
	return t
}

// waiting describes the processes of a master that has not started any yet.
func waiting(roles []RoleSpec) []Process {
	var list []Process
	for _, r := range roles {
		for n := range r.Count {
			p := Process{Role: r.Name, State: StateWaiting}
			if r.Numbered {
				p.Number = n + 1
			}
			list = append(list, p)
		}
	}
	return list
}

func (s *slot) describe() Process {
	s.mu.Lock()
	p := s.current
	d := Process{
		Role: s.spec.Name, State: StateWaiting, Restarts: s.restarts, LastExit: s.lastExit, ExitedAt: s.exitedAt,
	}
	if s.spec.Numbered {
		d.Number = s.number
	}
	d.Deaths, d.Dying = s.deaths.lately(time.Now())
	s.mu.Unlock()
	if p == nil {
		return d
	}
	d.Pid, d.StartedAt, d.State = p.cmd.Process.Pid, p.started.UTC(), StateStarting
	d.RSS, d.Health = rss(d.Pid), s.health()
	if p.isReady() {
		d.State, d.Version = StateRunning, p.version
	}
	if r, err := p.ask(child.AskStatus, askLimit); err == nil {
		d.Status = r.Status
	} else {
		d.State = StateSilent
	}
	return d
}

// health returns the role's URL, with the port that the system chose.
func (s *slot) health() string {
	spec := s.specification()
	if spec.Health == "" || len(spec.Listeners) == 0 {
		return spec.Health
	}
	held := s.m.sockets()[spec.Listeners[0].Key]
	if held == nil || !held.isFree() {
		return spec.Health
	}
	_, port, _ := net.SplitHostPort(held.bound.String())
	return strings.Replace(spec.Health, ":0/", ":"+port+"/", 1)
}

func (r *redisServer) describe() Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := Process{
		Role: "redis-server", Pid: r.pid, State: StateRunning, StartedAt: r.started, Restarts: r.restarts,
		LastExit: r.lastExit,
		RSS:      rss(r.pid),
	}
	d.Deaths, d.Dying = r.deaths.lately(time.Now())
	switch {
	case r.pid == 0 || syscall.Kill(r.pid, 0) != nil:
		d.State, d.Pid = StateWaiting, 0
	case r.adopted:
		d.State = StateAdopted
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
