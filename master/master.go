package master

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/master/child"
)

// Master is the tree of processes.
type Master struct {
	systemd systemd
	started time.Time
	redis   *redisServer

	mu      sync.Mutex
	options Options
	held    sockets
	slots   map[string][]*slot // by role
	order   []string
	leaving []*slot    // a reload took them away; they end by themselves
	reloads sync.Mutex // one at a time
}

func (m *Master) opts() Options {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.options
}

func (m *Master) sockets() sockets {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// Run is the life of a master: it returns when ctx is done and everything has ended. A value on hup reloads.
func Run(ctx context.Context, hup <-chan os.Signal, o Options) error {
	if err := o.defaults(); err != nil {
		return err
	}
	unlock, unclean, err := lock(ctx, o.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	m := &Master{systemd: newSystemd(), started: time.Now().UTC(), options: o, held: sockets{}, slots: map[string][]*slot{}}
	o.warnUnused()
	if m.held, err = m.openFirst(ctx, unclean); err != nil {
		return err
	}
	defer func() { m.sockets().closeUnused(nil) }()
	if o.Redis.Managed {
		m.redis = newRedis(o.Redis, o.Logger)
	}
	stopServing, err := m.serve(ctx)
	if err != nil {
		return err
	}
	defer stopServing()
	if m.redis != nil {
		if err := m.redis.start(ctx); err != nil {
			return err
		}
		defer m.redis.stop()
	}
	m.startAll(o.Roles)
	m.attend(ctx, hup)
	m.systemd.stopping(m.opts().ShutdownTimeout)
	return m.stopAll()
}

// orphansLeave is how long the children of a killed master may take to close their sockets.
const orphansLeave = 5 * time.Second

// openFirst opens the sockets. After a master that was killed, its server may still be listening for a moment.
func (m *Master) openFirst(ctx context.Context, unclean bool) (sockets, error) {
	deadline := time.Now().Add(orphansLeave)
	for {
		held, err := m.held.open(m.options.Roles, m.options.Passed)
		if err == nil || !unclean || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return held, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// lock makes sure that no other master works on the directory. unclean says that the last one did not unlock it by itself.
func lock(ctx context.Context, dir string) (unlock func(), unclean bool, err error) {
	path := filepath.Join(dir, child.LockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("lock the data directory: %w", err)
	}
	lockErr := flockSoon(ctx, f)
	pid, err := os.ReadFile(path)
	if ctx.Err() != nil {
		_ = f.Close()
		return nil, false, ctx.Err()
	}
	if lockErr != nil || err != nil {
		_ = f.Close()
		return nil, false, fmt.Errorf("another master (pid %s) runs on %s: stop it first, or set data_dir to another directory", strings.TrimSpace(string(pid)), dir)
	}
	err = errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n"))
	if err != nil {
		_ = f.Close()
		return nil, false, fmt.Errorf("lock the data directory: %w", err)
	}
	return func() {
		_ = f.Truncate(0)
		_ = f.Close() // the file stays: removing it would race with another master's lock
	}, len(pid) > 0, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

const (
	lockGlance   = 500 * time.Millisecond // how long a process that looks whether a master lives holds the lock
	lockShutdown = 10 * time.Second       // how long one that shuts down a dead master's redis-server may hold it
)

// flockSoon waits for those that hold the lock without being a master.
func flockSoon(ctx context.Context, f *os.File) error {
	for began := time.Now(); ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		waited := time.Since(began)
		if err == nil || waited > lockShutdown || waited > lockGlance && ownerLives(f) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// ownerLives says whether the process that the lock file names runs. An empty file is that of a master that is just starting.
func ownerLives(f *os.File) bool {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0) // an error: its end
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func (m *Master) startAll(roles []RoleSpec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range roles {
		m.order = append(m.order, r.Name)
		for n := range r.Count {
			m.slots[r.Name] = append(m.slots[r.Name], m.newSlot(r, n+1))
		}
	}
}

// all lists the slots in their order.
func (m *Master) all() []*slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*slot
	for _, name := range m.order {
		list = append(list, m.slots[name]...)
	}
	return list
}

// tellReady calls Options.Ready once all processes serve.
func (m *Master) tellReady(ctx context.Context) {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for !m.allReady() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
	m.systemd.ready("up")
	if ready := m.opts().Ready; ready != nil {
		ready()
	}
}

func (m *Master) allReady() bool {
	for _, s := range m.all() {
		s.mu.Lock()
		p := s.current
		s.mu.Unlock()
		if p == nil || !p.isReady() {
			return false
		}
	}
	return true
}

func (m *Master) attend(ctx context.Context, hup <-chan os.Signal) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { m.tellReady(ctx) })
	wg.Go(func() { m.watchdog(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			wg.Go(func() {
				m.systemd.reloading()
				if err := m.reload(ctx); err != nil {
					m.opts().Logger.Error("reload failed", "error", err)
					m.systemd.ready("up; the last reload failed: " + strings.ReplaceAll(err.Error(), "\n", "; "))
					return
				}
				m.systemd.ready(m.status())
			})
		}
	}
}

// status says that the master is up, and whether its processes are of a newer binary.
func (m *Master) status() string {
	t := m.tree()
	if newer := t.Newer(); newer != "" {
		m.opts().Logger.Warn("the master is of another version than its processes; a restart takes it to theirs", "master", t.Version, "processes", newer)
		return "up; the processes are of version " + newer + ", the master of " + t.Version + " until it is restarted"
	}
	return "up"
}

// reload reads the configuration again and replaces the processes one by one.
func (m *Master) reload(ctx context.Context) error {
	m.reloads.Lock()
	defer m.reloads.Unlock()
	if ctx.Err() != nil {
		return errStopping
	}
	old := m.opts()
	if old.Reload == nil {
		return errors.New("there is nothing to reload")
	}
	next, err := old.Reload()
	if err != nil {
		return fmt.Errorf("the configuration stays as it was: %w", err)
	}
	if err := next.defaults(); err != nil {
		return err
	}
	next.Executable, next.Reload, next.Kill, next.Ready, next.Logger = old.Executable, old.Reload, old.Kill, old.Ready, old.Logger
	next.Passed, next.Version = old.Passed, old.Version
	next.warnUnused()
	before := m.sockets()
	held, err := before.open(next.Roles, next.Passed)
	if err != nil {
		return fmt.Errorf("the configuration stays as it was: %w", err)
	}
	m.mu.Lock()
	m.options, m.held = next, held
	m.mu.Unlock()
	var errs []error
	for _, r := range append(m.dropped(next.Roles), next.Roles...) {
		errs = append(errs, m.resize(ctx, r)...)
	}
	before.closeUnused(held)
	old.Logger.Info("reloaded", "errors", len(errs))
	return errors.Join(errs...)
}

// dropped are the roles that a new configuration does not know any more, with no process.
func (m *Master) dropped(next []RoleSpec) (list []RoleSpec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range m.order {
		if !slices.ContainsFunc(next, func(r RoleSpec) bool { return r.Name == name }) {
			list = append(list, RoleSpec{Name: name})
		}
	}
	return list
}

// resize brings a role to its new configuration and number.
func (m *Master) resize(ctx context.Context, r RoleSpec) (errs []error) {
	m.mu.Lock()
	slots := m.slots[r.Name]
	keep := slots[:min(len(slots), r.Count)]
	surplus := slots[len(keep):]
	next := append([]*slot{}, keep...)
	for n := len(next); n < r.Count; n++ {
		next = append(next, nil)
	}
	m.mu.Unlock()
	for _, s := range keep {
		if err := s.replace(ctx, r); err != nil {
			errs = append(errs, err)
		}
	}
	for _, s := range surplus {
		s.cancel()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving = append(slices.DeleteFunc(m.leaving, (*slot).hasEnded), surplus...)
	if !slices.Contains(m.order, r.Name) {
		m.order = append(m.order, r.Name)
	}
	for n, s := range next {
		if s == nil {
			next[n] = m.newSlot(r, n+1)
		}
	}
	m.slots[r.Name] = next
	return errs
}

var (
	errStopping = errors.New("the master is stopping")
	errKilled   = errors.New("told twice to stop: stopped at once; jobs in flight come back when their leases end")
)

// headStart is how long a role may take to end before the next one is told to. In the ordinary case they so end one after another, the
// server first; a role that needs its whole shutdown timeout does not make the stop longer.
const headStart = 500 * time.Millisecond

// stopAll stops the roles in their order; the managed redis-server follows when all are gone.
func (m *Master) stopAll() error {
	m.reloads.Lock() // one that is under way sees the end and gives up; a later one does not begin
	defer m.reloads.Unlock()
	kill := m.opts().Kill
	var all sync.WaitGroup
	for _, slots := range m.byRole() {
		ended := make(chan struct{})
		all.Go(func() {
			defer close(ended)
			stopSlots(slots)
		})
		select {
		case <-ended:
		case <-kill:
		case <-time.After(headStart):
		}
	}
	all.Wait() // what is told to end also hears of kill
	select {
	case <-kill:
		return errKilled
	default:
		return nil
	}
}

// byRole groups the slots as they are to be stopped.
func (m *Master) byRole() [][]*slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	var groups [][]*slot
	for _, name := range m.order {
		groups = append(groups, m.slots[name])
	}
	return append(groups, m.leaving)
}

func stopSlots(slots []*slot) {
	for _, s := range slots {
		s.cancel()
	}
	for _, s := range slots {
		<-s.ended
	}
}
