package master

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/wakecall/wakecall/master/child"
)

// A slot is one position in the tree, such as dispatcher 2. It keeps a process running there.
type slot struct {
	m      *Master
	number int

	requests chan replacement
	cancel   context.CancelFunc
	ended    chan struct{}

	mu       sync.Mutex
	spec     RoleSpec
	current  *process
	restarts int
	lastExit string
	exitedAt time.Time
	deaths   deaths
}

// replacement is a request to replace the slot's process.
type replacement struct {
	spec RoleSpec
	done chan error
}

const (
	readyWithin = 20 * time.Second
	stopGrace   = 2 * time.Second // how long a child may exceed the shutdown timeout before it is killed
)

func (m *Master) newSlot(spec RoleSpec, number int) *slot {
	ctx, cancel := context.WithCancel(context.Background())
	s := &slot{
		m: m, number: number, spec: spec, requests: make(chan replacement), cancel: cancel, ended: make(chan struct{}),
	}
	go s.run(ctx)
	return s
}

func (s *slot) specification() RoleSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec
}

func (s *slot) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *slot) title() string {
	spec := s.specification()
	if spec.Numbered {
		return fmt.Sprintf("%s %d", spec.Name, s.number)
	}
	return spec.Name
}

// run keeps a process running in the slot until its context ends, then stops it.
func (s *slot) run(ctx context.Context) {
	defer close(s.ended)
	var old sync.WaitGroup // predecessors that are still ending
	defer old.Wait()
	var pause backoff
	for {
		began := time.Now()
		p, err := s.spawn(s.specification())
		if err == nil {
			s.set(p)
			began = s.watch(ctx, p, &old)
		} else {
			s.m.opts().Logger.Error("cannot start process", "process", s.title(), "error", err)
			s.failed(err.Error())
		}
		if ctx.Err() != nil || !s.rest(ctx, pause.next(time.Since(began))) {
			return
		}
	}
}

// watch waits for a process, or its successors, to die, or for the slot to end. It returns the start time of the last
// process.
func (s *slot) watch(ctx context.Context, p *process, old *sync.WaitGroup) time.Time {
	for {
		select {
		case <-ctx.Done():
			o := s.m.opts()
			p.stop(o.ShutdownTimeout+stopGrace, o.Kill)
			return p.started
		case <-p.done:
			s.m.opts().Logger.Warn("process ended; restarting",
				"process", s.title(), "pid", p.cmd.Process.Pid, "exit", p.exit)
			s.failed(p.exit)
			s.mu.Lock()
			s.restarts++
			s.deaths.add(time.Now())
			s.mu.Unlock()
			return p.started
		case r := <-s.requests:
			q, err := s.successor(ctx, r.spec)
			if err == nil {
				before, o := p, s.m.opts()
				old.Go(func() { before.retire(o.ShutdownTimeout+stopGrace, o.Kill) })
				p = q
			}
			r.done <- err
		}
	}
}

// rest waits before the next start. A replacement request ends the wait. It returns false if the slot ends.
func (s *slot) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case r := <-s.requests:
		s.mu.Lock()
		s.spec = r.spec
		s.mu.Unlock()
		r.done <- nil
	}
	return true
}

func (s *slot) set(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = p
}

func (s *slot) failed(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.lastExit, s.exitedAt = nil, reason, time.Now().UTC()
}

func (s *slot) spawn(spec RoleSpec) (*process, error) {
	o := s.m.opts()
	boot := child.Boot{Role: spec.Name, Config: spec.Config, ShutdownTimeoutMS: o.ShutdownTimeout.Milliseconds()}
	if spec.Numbered {
		boot.Number = s.number
	}
	var files []*os.File
	held := s.m.sockets()
	boot.FreePorts = held.freePorts()
	if s.m.metricsPort != "" {
		boot.FreePorts["metrics.addr"] = s.m.metricsPort
	}
	for _, l := range spec.Listeners {
		socket := held[l.Key]
		if socket == nil { // a reload closed the socket, and the process died before it was replaced
			return nil, fmt.Errorf("the socket of %s is closed", l.Key)
		}
		boot.Listeners = append(boot.Listeners, l.Name)
		files = append(files, socket.file)
	}
	return start(o, s.title(), boot, files)
}

// successor starts another process and waits until it serves. On error the old process is kept.
func (s *slot) successor(ctx context.Context, spec RoleSpec) (*process, error) {
	q, err := s.spawn(spec)
	if err != nil {
		return nil, err
	}
	t := time.NewTimer(readyWithin)
	defer t.Stop()
	select {
	case <-q.ready:
		s.mu.Lock()
		s.spec, s.current = spec, q
		s.mu.Unlock()
		return q, nil
	case <-q.done:
		err = fmt.Errorf("its successor ended immediately: %s", q.exit)
	case <-t.C:
		err = fmt.Errorf("its successor was not ready within %s", readyWithin)
	case <-ctx.Done():
		err = errStopping
	}
	q.kill()
	return nil, fmt.Errorf("%s: %w; keeping the old process", s.title(), err)
}

// replace replaces the slot's process.
func (s *slot) replace(ctx context.Context, spec RoleSpec) error {
	r := replacement{spec, make(chan error, 1)}
	select {
	case s.requests <- r:
	case <-s.ended:
		return errStopping
	case <-ctx.Done():
		return errStopping
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return errStopping
	}
}

func (s *slot) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}
