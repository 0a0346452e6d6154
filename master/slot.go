package master

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/wakecall/wakecall/master/child"
)

// A slot is one place in the tree, such as dispatcher 2, and keeps a process in it.
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
}

// replacement asks for a successor of the slot's process.
type replacement struct {
	spec RoleSpec
	done chan error
}

const (
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 30 * time.Second
	stableAfter = time.Minute // a process that lived that long may start at once again
	readyWithin = 20 * time.Second
)

func (m *Master) newSlot(spec RoleSpec, number int) *slot {
	ctx, cancel := context.WithCancel(context.Background())
	s := &slot{m: m, number: number, spec: spec, requests: make(chan replacement), cancel: cancel, ended: make(chan struct{})}
	go s.run(ctx)
	return s
}

func (s *slot) title() string {
	if s.spec.Numbered {
		return fmt.Sprintf("%s %d", s.spec.Name, s.number)
	}
	return s.spec.Name
}

// run keeps a process in the slot until its context ends, then stops it.
func (s *slot) run(ctx context.Context) {
	defer close(s.ended)
	var old sync.WaitGroup // predecessors on their way out
	defer old.Wait()
	backoff := time.Duration(0)
	for ctx.Err() == nil {
		p, err := s.start()
		if err != nil {
			s.m.opts().Logger.Error("a process cannot be started", "process", s.title(), "error", err)
			s.note(nil, err.Error())
		} else if s.attend(ctx, p, &old) {
			return
		}
		if p != nil && time.Since(p.started) > stableAfter {
			backoff = 0
		}
		backoff = min(max(2*backoff, minBackoff), maxBackoff)
		s.rest(ctx, backoff)
	}
}

// attend watches a process and its successors until one dies (false) or the slot is to end (true).
func (s *slot) attend(ctx context.Context, p *process, old *sync.WaitGroup) (ended bool) {
	for {
		select {
		case <-ctx.Done():
			s.end(p)
			return true
		case <-p.done:
			s.m.opts().Logger.Warn("a process ended; starting another", "process", s.title(), "pid", p.cmd.Process.Pid, "exit", p.exit)
			s.note(nil, p.exit)
			s.mu.Lock()
			s.restarts++
			s.mu.Unlock()
			return false
		case r := <-s.requests:
			q, err := s.successor(ctx, r.spec)
			if err == nil {
				before := p
				old.Go(func() { s.retire(before) })
				p = q
			}
			r.done <- err
		}
	}
}

// rest waits before the next start; a replacement ends the wait.
func (s *slot) rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case r := <-s.requests:
		s.mu.Lock()
		s.spec = r.spec
		s.mu.Unlock()
		r.done <- nil
	}
}

func (s *slot) note(p *process, exit string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = p
	if exit != "" {
		s.lastExit, s.exitedAt = exit, time.Now().UTC()
	}
}

func (s *slot) start() (*process, error) {
	s.mu.Lock()
	spec := s.spec
	s.mu.Unlock()
	p, err := s.spawn(spec)
	if err == nil {
		s.note(p, "")
	}
	return p, err
}

func (s *slot) spawn(spec RoleSpec) (*process, error) {
	o := s.m.opts()
	boot := child.Boot{Role: spec.Name, Config: spec.Config, ShutdownTimeoutMS: o.ShutdownTimeout.Milliseconds()}
	if spec.Numbered {
		boot.Number = s.number
	}
	var files []*os.File
	held := s.m.sockets()
	for _, l := range spec.Listeners {
		socket := held[l.Key]
		if socket == nil { // a reload took it away, and the process died before its turn came
			return nil, fmt.Errorf("there is no socket for %s any more", l.Key)
		}
		boot.Listeners = append(boot.Listeners, l.Name)
		files = append(files, socket.file)
	}
	return start(o.Executable, s.title(), boot, files)
}

// successor starts another process and waits until it serves. On an error the old one stays.
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
		err = fmt.Errorf("its successor ended at once: %s", q.exit)
	case <-t.C:
		err = fmt.Errorf("its successor did not serve within %s", readyWithin)
	case <-ctx.Done():
		err = errStopping
	}
	q.kill()
	return nil, fmt.Errorf("%s: %w; the old process stays", s.title(), err)
}

// replace has a successor take the place of the slot's process.
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

// end stops a process of the slot within the shutdown timeout, or at once when the master is told twice.
func (s *slot) end(p *process) {
	o := s.m.opts()
	p.stop(o.ShutdownTimeout+2*time.Second, o.Kill)
}

// retire ends a process that has a successor. One that does not listen is killed when its time is over, like any other.
func (s *slot) retire(p *process) {
	o := s.m.opts()
	p.retire(o.ShutdownTimeout+2*time.Second, o.Kill)
}
