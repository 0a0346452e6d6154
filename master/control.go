package master

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/wakecall/wakecall/master/child"
)

// Tree is what runs.
type Tree struct {
	Pid       int       `json:"pid"`
	Version   string    `json:"version,omitempty"`
	StartedAt time.Time `json:"started_at"`
	RSS       int64     `json:"rss"`
	Processes []Process `json:"processes"`
}

// Newer is the version of a process that has been replaced by one of another binary than the master's, empty when there is none: a reload
// takes the processes to a new binary, and only a restart takes the master.
func (t *Tree) Newer() string {
	for _, p := range t.Processes {
		if p.Version != "" && t.Version != "" && p.Version != t.Version {
			return p.Version
		}
	}
	return ""
}

// Process is one process of the tree.
type Process struct {
	Role      string          `json:"role"`
	Number    int             `json:"number,omitempty"`
	Pid       int             `json:"pid"`
	Version   string          `json:"version,omitempty"` // of Wakecall, when it is ready
	State     string          `json:"state"`             // running, starting, waiting (to be started again), adopted
	StartedAt time.Time       `json:"started_at,omitzero"`
	Restarts  int             `json:"restarts"`
	LastExit  string          `json:"last_exit,omitempty"`
	ExitedAt  time.Time       `json:"exited_at,omitzero"`
	RSS       int64           `json:"rss"` // bytes
	Status    json.RawMessage `json:"status,omitempty"`
}

// ControlSocket is where a master of a data directory answers.
const ControlSocket = "master.sock"

const askLimit = time.Second

type request struct {
	Ask    string `json:"ask"` // ps, reload, restart
	Role   string `json:"role,omitempty"`
	Number int    `json:"number,omitempty"`
}

type response struct {
	Tree  *Tree  `json:"tree,omitempty"`
	Error string `json:"error,omitempty"`
}

// serve opens the control socket and the metrics address.
func (m *Master) serve(ctx context.Context) (stop func(), err error) {
	path := filepath.Join(m.options.DataDir, ControlSocket)
	_ = os.Remove(path) // a killed master's; the lock says that none lives
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { m.answer(ctx, conn) })
		}
	})
	srv, err := m.serveMetrics()
	if err != nil {
		_ = l.Close()
		wg.Wait()
		return nil, err
	}
	return func() {
		_ = l.Close()
		if srv != nil {
			ctx, cancel := context.WithTimeout(context.Background(), askLimit)
			defer cancel()
			_ = srv.Shutdown(ctx)
		}
		wg.Wait()
	}, nil
}

// maxScrapers bounds the connections to metrics.addr: half-open ones must not use up the descriptors that the master needs to start processes.
const maxScrapers = 64

func (m *Master) serveMetrics() (*http.Server, error) {
	addr := m.options.MetricsAddr
	if addr == "" {
		return nil, nil
	}
	s, err := openSocket(ListenSpec{Key: "metrics.addr", Addr: addr}, m.options.Passed)
	if err != nil {
		return nil, err
	}
	_ = s.file.Close()
	mux := http.NewServeMux()
	mux.Handle("/metrics", m.metricsHandler())
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	go func() { _ = srv.Serve(netutil.LimitListener(s.listener, maxScrapers)) }() // ends with Shutdown
	return srv, nil
}

func (m *Master) answer(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(askLimit))
	var q request
	if err := json.NewDecoder(conn).Decode(&q); err != nil {
		return
	}
	r := response{}
	var err error
	switch q.Ask {
	case "ps":
		r.Tree = m.tree()
	case "reload":
		err = m.reload(ctx)
	case "restart":
		err = m.restart(ctx, q.Role, q.Number)
	default:
		err = fmt.Errorf("the master does not know %q", q.Ask)
	}
	if err != nil {
		r.Error = err.Error()
	}
	_ = conn.SetWriteDeadline(time.Now().Add(askLimit))
	_ = json.NewEncoder(conn).Encode(r) // an error: the asker is gone
}

func (m *Master) restart(ctx context.Context, role string, number int) error {
	m.mu.Lock()
	slots := m.slots[role]
	m.mu.Unlock()
	if number == 0 && len(slots) == 1 {
		number = 1
	}
	if number < 1 || number > len(slots) {
		return fmt.Errorf("there is no %s %d", role, number)
	}
	s := slots[number-1]
	s.mu.Lock()
	spec := s.spec
	s.mu.Unlock()
	return s.replace(ctx, spec)
}

// tree asks all processes at once.
func (m *Master) tree() *Tree {
	slots := m.all()
	t := &Tree{Pid: os.Getpid(), Version: m.opts().Version, StartedAt: m.started, RSS: rss(os.Getpid()), Processes: make([]Process, len(slots))}
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
	d := Process{Role: "redis-server", Pid: r.pid, State: "running", StartedAt: r.started, Restarts: r.restarts, LastExit: r.lastExit, RSS: rss(r.pid)}
	switch {
	case syscall.Kill(r.pid, 0) != nil:
		d.State, d.Pid = "waiting", 0
	case r.adopted:
		d.State = "adopted"
	}
	return d
}

// rss is a process's resident memory in bytes, 0 when it is gone.
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

// ErrNoMaster is for a data directory on which no master runs.
var ErrNoMaster = errors.New("no master answers; is `wakecall up` running, with this data_dir?")

func ask(ctx context.Context, dataDir string, q request) (*Tree, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dataDir, ControlSocket))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dataDir, ErrNoMaster)
	}
	defer func() { _ = conn.Close() }()
	// The end of ctx, by its deadline or not, ends the waiting; what was asked for goes on.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var r response
	err = json.NewEncoder(conn).Encode(q)
	if err == nil {
		err = json.NewDecoder(bufio.NewReader(conn)).Decode(&r)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the master of %s: %w", dataDir, err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return r.Tree, nil
}

// Ps asks the master of a data directory what runs.
func Ps(ctx context.Context, dataDir string) (*Tree, error) {
	return ask(ctx, dataDir, request{Ask: "ps"})
}

// Reload makes the master of a data directory reload, and waits until it has.
func Reload(ctx context.Context, dataDir string) error {
	_, err := ask(ctx, dataDir, request{Ask: "reload"})
	return err
}

// Restart replaces one process; number 0 is the only one of its role.
func Restart(ctx context.Context, dataDir, role string, number int) error {
	_, err := ask(ctx, dataDir, request{Ask: "restart", Role: role, Number: number})
	return err
}
