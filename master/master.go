package master

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/pause"
)

// Master supervises the tree of processes.
type Master struct {
	systemd systemd
	started time.Time
	redis   *redisServer

	metricsPort string // the address of /metrics if the system chose its port

	mu      sync.Mutex
	options Options
	held    sockets
	slots   map[string][]*slot // by role
	order   []string           // order of the roles
	leaving []*slot            // removed by a reload, but still ending
	reloads sync.Mutex         // one at a time
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

// Run runs a master until ctx is done and every process has ended. It reloads when it receives from hup, which should
// have a capacity of one.
func Run(ctx context.Context, hup <-chan os.Signal, o Options) error {
	if err := o.setDefaults(); err != nil {
		return err
	}
	unlock, unclean, err := lock(ctx, o.DataDir)
	if err != nil {
		return err
	}
	defer unlock()
	m := &Master{
		systemd: newSystemd(), started: time.Now().UTC(), options: o, held: sockets{}, slots: map[string][]*slot{},
	}
	o.warnUnused()
	if m.held, err = m.openSockets(ctx, unclean); err != nil {
		return err
	}
	defer func() { m.sockets().closeUnused(nil) }()
	for key, s := range m.held {
		s.logFreePort(o.Logger, key)
	}
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
	}
	m.startAll(m.options.Roles)
	m.supervise(ctx, hup)
	limit := m.opts().ShutdownTimeout
	m.systemd.stopping(limit)
	m.opts().Logger.Info("stopping gracefully; a second signal stops immediately",
		"within", limit)
	return errors.Join(m.stopAll(), m.stopRedis())
}

// orphansLeave is how long the children of a killed master may take to close their sockets. They do so within two
// seconds unless they are suspended.
const orphansLeave = 20 * time.Second

// openSockets opens the sockets. The server of a killed master may hold them a little longer.
func (m *Master) openSockets(ctx context.Context, unclean bool) (sockets, error) {
	deadline := time.Now().Add(orphansLeave)
	for {
		held, err := m.held.open(m.options.Roles, m.options.Passed)
		if err == nil {
			return held, nil
		}
		if !unclean || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			if !m.without(err) {
				return nil, err
			}
			continue
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// without removes the listener that could not be opened from its role, if it is optional.
func (m *Master) without(err error) bool {
	failed, ok := errors.AsType[*listenError](err)
	if !ok || !failed.spec.Optional {
		return false
	}
	m.options.Logger.Error("starting without a listener", "error", err)
	m.options.Roles = slices.Clone(m.options.Roles)
	for i, r := range m.options.Roles {
		m.options.Roles[i].Listeners = slices.DeleteFunc(slices.Clone(r.Listeners),
			func(l ListenSpec) bool { return l.Key == failed.spec.Key })
	}
	return true
}

func (m *Master) startAll(roles []RoleSpec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range roles {
		m.fill(r)
	}
}

// all returns the slots in the order of their roles.
func (m *Master) all() []*slot {
	groups := m.byRole()
	return slices.Concat(groups[:len(groups)-1]...)
}

// supervise reloads on values from hup until ctx ends.
func (m *Master) supervise(ctx context.Context, hup <-chan os.Signal) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { m.announceReady(ctx) })
	wg.Go(func() { m.watchdog(ctx) })
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup: // signals during a reload cause only one more, since hup holds one value
			m.hangup(ctx)
		}
	}
}

// announceReady calls Options.Ready once all processes serve.
func (m *Master) announceReady(ctx context.Context) {
	for !m.allReady() {
		if !pause.For(ctx, 20*time.Millisecond) {
			return
		}
	}
	m.systemd.ready("up")
	if ready := m.opts().Ready; ready != nil {
		ready()
	}
}

func (m *Master) allReady() bool {
	for _, s := range m.all() {
		if p := s.process(); p == nil || !p.isReady() {
			return false
		}
	}
	return true
}

func (m *Master) hangup(ctx context.Context) {
	m.systemd.reloading()
	if err := m.reload(ctx); err != nil {
		m.opts().Logger.Error("reload failed", "error", err)
		m.systemd.ready("up; the last reload failed: " + strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	m.systemd.ready(m.status())
}

// status returns a text for the service manager: that the master is up, and whether its processes run a newer binary.
func (m *Master) status() string {
	t := m.tree()
	newer := t.Newer()
	if newer == "" {
		return "up"
	}
	m.opts().Logger.Warn("the processes run a different version than the master; restart the master to upgrade it, too",
		"master", t.Version, "processes", newer)
	return "up; the processes run version " + newer + ", the master " + t.Version + " until it is restarted"
}

var errKilled = errors.New("stopped immediately by a second signal; " +
	"jobs in flight are delivered when their leases expire")

// headStart is how long a role may take to stop before the next one is stopped, too. So the roles usually stop one
// after another, the server first, but one that needs its whole shutdown timeout does not delay the others.
const headStart = 500 * time.Millisecond

// stopAll stops the roles in order.
func (m *Master) stopAll() error {
	m.reloads.Lock() // this ends a running reload, and no other one begins
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
	all.Wait() // every slot that stops also watches kill
	select {
	case <-kill:
		return errKilled
	default:
		return nil
	}
}

func (m *Master) stopRedis() error {
	if m.redis == nil {
		return nil
	}
	return m.redis.stop(m.opts().Kill)
}

// byRole groups the slots in the order in which they are stopped. Slots removed by a reload come last.
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
