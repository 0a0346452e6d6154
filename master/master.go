package master

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/master/child"
)

// Master is the tree of processes.
type Master struct {
	started time.Time
	redis   *redisServer

	mu      sync.Mutex
	options Options
	held    sockets
	slots   map[string][]*slot // by role
	order   []string
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
	unlock, unclean, err := lock(o.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	m := &Master{started: time.Now().UTC(), options: o, held: sockets{}, slots: map[string][]*slot{}}
	if m.held, err = m.openFirst(ctx, unclean); err != nil {
		return err
	}
	defer func() { m.sockets().closeUnused(nil) }()
	if o.Redis.Managed {
		m.redis = newRedis(o.Redis, o.Logger)
	}
	stopServing, err := m.serve()
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
	return m.stopAll()
}

// orphansLeave is how long the children of a killed master may take to close their sockets.
const orphansLeave = 5 * time.Second

// openFirst opens the sockets. After a master that was killed, its server may still be listening for a moment.
func (m *Master) openFirst(ctx context.Context, unclean bool) (sockets, error) {
	deadline := time.Now().Add(orphansLeave)
	for {
		held, err := m.held.open(m.options.Roles)
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
func lock(dir string) (unlock func(), unclean bool, err error) {
	path := filepath.Join(dir, child.LockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("lock the data directory: %w", err)
	}
	lockErr := flockSoon(f)
	pid, err := os.ReadFile(path)
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

// flockSoon waits a moment: a process that looks whether a master lives holds the lock for that long.
func flockSoon(f *os.File) error {
	var err error
	for range 20 {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return nil
		}
		time.Sleep(25 * time.Millisecond)
	}
	return err
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
	ready := m.opts().Ready
	if ready == nil {
		return
	}
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for !m.allReady() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
	ready()
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			wg.Go(func() {
				if err := m.reload(); err != nil {
					m.opts().Logger.Error("reload failed", "error", err)
				}
			})
		}
	}
}

// reload reads the configuration again and replaces the processes one by one.
func (m *Master) reload() error {
	m.reloads.Lock()
	defer m.reloads.Unlock()
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
	before := m.sockets()
	held, err := before.open(next.Roles)
	if err != nil {
		return fmt.Errorf("the configuration stays as it was: %w", err)
	}
	m.mu.Lock()
	m.options, m.held = next, held
	m.mu.Unlock()
	var errs []error
	for _, r := range next.Roles {
		errs = append(errs, m.resize(r)...)
	}
	before.closeUnused(held)
	old.Logger.Info("reloaded", "errors", len(errs))
	return errors.Join(errs...)
}

// resize brings a role to its new configuration and number.
func (m *Master) resize(r RoleSpec) (errs []error) {
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
		if err := s.replace(r); err != nil {
			errs = append(errs, err)
		}
	}
	for _, s := range surplus {
		s.stop()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, s := range next {
		if s == nil {
			next[n] = m.newSlot(r, n+1)
		}
	}
	m.slots[r.Name] = next
	return errs
}

var errKilled = errors.New("told twice to stop: stopped at once; jobs in flight come back when their leases end")

// stopAll stops all processes at once; the managed redis-server follows when they are gone.
func (m *Master) stopAll() error {
	var wg sync.WaitGroup
	for _, s := range m.all() {
		wg.Go(s.stop)
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-m.opts().Kill:
	}
	for _, s := range m.all() {
		s.kill()
	}
	<-ended
	return errKilled
}
