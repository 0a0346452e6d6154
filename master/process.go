package master

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/master/child"
)

// process is one running child.
type process struct {
	cmd     *exec.Cmd
	conn    net.Conn
	started time.Time
	ready   chan struct{} // closed when it serves; version is set before
	version string        // of its binary
	done    chan struct{} // closed when it has ended; exit is set before
	exit    string
	silent  atomic.Bool // killed because it did not answer

	mu      sync.Mutex
	next    int64
	waiting map[int64]chan child.Reply
}

// ownEnv is the prefix of Wakecall's own variables, which may contain passwords and tokens.
const ownEnv = "WAKECALL_"

// othersEnv returns the environment for child processes, without Wakecall's own variables. A child receives its
// configuration in the boot message which, unlike an environment, cannot be read later.
func othersEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, ownEnv) })
}

func childEnv() []string { return append(othersEnv(), child.Env+"=1") }

// socketPair returns both ends of a child's control connection.
func socketPair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unixPair()
	if err != nil {
		return nil, nil, fmt.Errorf("create control socket: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "control")
	ours, err = net.FileConn(f)
	_ = f.Close()
	theirs = os.NewFile(uintptr(fds[1]), "control")
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("create control socket: %w", err)
	}
	return ours, theirs, nil
}

// start starts a child and sends its boot message.
func start(o Options, title string, boot child.Boot, sockets []*os.File) (*process, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	cmd := exec.Command(o.Executable)
	cmd.Args = []string{"wakecall: " + title} // shown by ps
	cmd.Env = childEnv()
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = append([]*os.File{theirs}, sockets...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C in the terminal is meant for the master
	if err := cmd.Start(); err != nil {
		_ = ours.Close()
		return nil, fmt.Errorf("start %s: %w", title, err)
	}
	p := &process{
		cmd: cmd, conn: ours, started: time.Now(), ready: make(chan struct{}), done: make(chan struct{}),
		waiting: map[int64]chan child.Reply{},
	}
	p.send(child.Message{Boot: &boot})
	go p.read()
	go p.wait()
	go p.killSilent(o.AnswerWithin)
	return p, nil
}

func (p *process) wait() {
	err := p.cmd.Wait()
	p.exit = "exit 0"
	if err != nil {
		p.exit = err.Error()
	}
	if p.silent.Load() {
		p.exit = fmt.Sprintf("killed after %d unanswered requests in a row", maxUnanswered)
	}
	_ = p.conn.Close()
	close(p.done)
}

func (p *process) read() {
	d := json.NewDecoder(p.conn)
	isReady := false
	for {
		var r child.Reply
		if err := d.Decode(&r); err != nil {
			return
		}
		if r.Ready && !isReady {
			isReady, p.version = true, r.Version
			close(p.ready)
		}
		p.mu.Lock()
		c := p.waiting[r.ID]
		delete(p.waiting, r.ID)
		p.mu.Unlock()
		if c != nil {
			c <- r
		}
	}
}

func (p *process) send(m child.Message) {
	b, err := json.Marshal(m)
	if err != nil {
		return
	}
	_ = p.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = p.conn.Write(append(b, '\n')) // a child that does not read will not answer either
}

var errSilent = errors.New("process does not answer")

// ask sends a request to the child and waits up to limit for its reply.
func (p *process) ask(what string, limit time.Duration) (child.Reply, error) {
	c := make(chan child.Reply, 1)
	p.mu.Lock()
	p.next++
	id := p.next
	p.waiting[id] = c
	p.send(child.Message{ID: id, Ask: what})
	p.mu.Unlock()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case r := <-c:
		return r, nil
	case <-p.done:
	case <-t.C:
	}
	p.mu.Lock()
	delete(p.waiting, id)
	p.mu.Unlock()
	return child.Reply{}, errSilent
}

// A process that leaves maxUnanswered requests in a row unanswered hangs. With the default AnswerWithin this takes two
// minutes.
const maxUnanswered = 12

// killSilent polls the process, and kills it if it hangs or is suspended. It counts requests instead of time, because
// after the machine slept, or this master was suspended, at most one request is unanswered.
func (p *process) killSilent(within time.Duration) {
	next := time.NewTicker(within)
	defer next.Stop()
	for unanswered := 0; unanswered < maxUnanswered; {
		unanswered++
		if _, err := p.ask(child.AskStatus, within); err == nil {
			unanswered = 0
		}
		select {
		case <-p.done:
			return
		case <-next.C:
		}
	}
	p.silent.Store(true)
	p.kill()
}

func (p *process) isReady() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// stop asks the child to stop, and kills it after limit or when now is closed.
func (p *process) stop(limit time.Duration, now <-chan struct{}) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // on an error it has already ended
	p.await(limit, now)
}

// retire stops a child whose successor serves.
func (p *process) retire(limit time.Duration, now <-chan struct{}) {
	p.mu.Lock()
	p.send(child.Message{Replaced: true})
	p.mu.Unlock()
	p.await(limit, now)
}

func (p *process) await(limit time.Duration, now <-chan struct{}) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
	case <-now:
		p.kill()
	case <-t.C:
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // on an error it has already ended
	<-p.done
}
