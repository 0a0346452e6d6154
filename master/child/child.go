package child

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"golang.org/x/sync/singleflight"

	"github.com/wakecall/wakecall/internal/log"
)

// Child is a role's connection to the master. Its methods may be called from any goroutine.
type Child struct {
	Role            string
	Number          int
	Config          json.RawMessage
	Listeners       map[string]net.Listener
	ShutdownTimeout time.Duration
	FreePorts       map[string]string // see Boot
	Version         string            // version of this binary; the role sets it before Ready

	conn     net.Conn
	in       *json.Decoder // shared by all messages, because it reads ahead
	mu       sync.Mutex    // guards writes
	gatherer atomic.Pointer[prometheus.Gatherer]
	status   atomic.Pointer[func() map[string]any]
	orphaned atomic.Bool
	replaced atomic.Bool
}

// Is reports whether a master started this process.
func Is() bool { return os.Getenv(Env) != "" }

// A Role does a child's work until ctx is done, and then stops within Child.ShutdownTimeout.
type Role func(ctx context.Context, c *Child) error

const (
	controlFD  = 3
	listenerFD = 4
	grace      = time.Second // time after the shutdown timeout for the role to return
)

// Main runs a child process and returns its exit code.
func Main(roles map[string]Role) int {
	log.Own()
	defer log.Stderr.Close()
	c, err := attach()
	if err == nil {
		err = c.run(roles)
	}
	if err != nil {
		fmt.Fprintf(log.Stderr, "wakecall: %s: %v\n", c.Title(), err)
		return 1
	}
	return 0
}

// Title returns the role and its number.
func (c *Child) Title() string {
	if c == nil || c.Role == "" {
		return "child"
	}
	if c.Number > 0 {
		return fmt.Sprintf("%s %d", c.Role, c.Number)
	}
	return c.Role
}

// attach takes over the inherited sockets and reads the boot message.
func attach() (*Child, error) {
	if err := os.Unsetenv(Env); err != nil { // processes started by this one must not inherit it
		return nil, err
	}
	syscall.CloseOnExec(controlFD)
	f := os.NewFile(controlFD, "control")
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, errors.New("not started by a master; run `wakecall up`, or a role by its name")
	}
	_ = f.Close() // package net has a duplicate
	c := &Child{conn: conn, in: json.NewDecoder(conn), Listeners: map[string]net.Listener{}}
	var m Message
	if err := c.in.Decode(&m); err != nil {
		return nil, fmt.Errorf("read the master's boot message: %w", err)
	}
	if m.Boot == nil {
		return nil, errors.New("the master's first message is not a boot message")
	}
	c.Role, c.Number, c.Config = m.Boot.Role, m.Boot.Number, m.Boot.Config
	c.ShutdownTimeout = time.Duration(m.Boot.ShutdownTimeoutMS) * time.Millisecond
	c.FreePorts = m.Boot.FreePorts
	for i, name := range m.Boot.Listeners {
		lf := os.NewFile(uintptr(listenerFD+i), name)
		l, err := net.FileListener(lf)
		if err != nil {
			return c, fmt.Errorf("inherit socket %s: %w", name, err)
		}
		_ = lf.Close()
		c.Listeners[name] = l
	}
	return c, nil
}

var errKilled = errors.New("stopped at once by a second signal")

func (c *Child) run(roles map[string]Role) error {
	role := roles[c.Role]
	if role == nil {
		return fmt.Errorf("this binary has no role %q", c.Role)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go c.listen(cancel)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR2)
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE) // continue when nobody reads the log anymore
	done := make(chan error, 1)
	go func() { done <- role(ctx, c) }()
	stopping, deadline := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case err := <-done:
			return err
		case <-stopping:
			stopping, deadline = nil, time.After(c.ShutdownTimeout+grace)
		case <-deadline:
			return fmt.Errorf("did not stop within %s", c.ShutdownTimeout)
		case s := <-signals:
			// A running master kills this process itself, and its SIGTERM may be the second one, because a service
			// manager or killall signals all processes at once.
			if c.Orphaned() && ctx.Err() != nil && s != syscall.SIGUSR2 {
				return errKilled
			}
			cancel()
		}
	}
}

// listen answers the master, and calls stop when the child must stop. A gathering of metrics may take long, so it does
// not hold up the other answers, and requests for metrics that arrive meanwhile share it.
func (c *Child) listen(stop func()) {
	var gathering singleflight.Group
	var answering sync.WaitGroup
	defer answering.Wait()
	defer stop()
	for {
		var m Message
		if err := c.in.Decode(&m); err != nil {
			c.orphaned.Store(true)
			return
		}
		if m.Replaced {
			c.replaced.Store(true)
			stop() // not by a signal, which could overtake the message
			continue
		}
		switch m.Ask {
		case AskMetrics:
			answering.Go(func() {
				b, _, _ := gathering.Do("", func() (any, error) { return c.metrics(), nil })
				c.reply(Reply{ID: m.ID, Metrics: b.([]byte)})
			})
		case AskStatus:
			c.reply(Reply{ID: m.ID, Status: c.statusJSON()})
		}
	}
}

// reply has no time limit: a master that does not read may only be suspended, and a partial line would make the rest
// unreadable. Nothing else waits for it, and it returns when the master ends.
func (c *Child) reply(r Reply) {
	b, err := json.Marshal(r)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.conn.Write(append(b, '\n')) // listen notices when the master has died
}

func (c *Child) metrics() []byte {
	g := c.gatherer.Load()
	if g == nil {
		return nil
	}
	families, err := (*g).Gather()
	if err != nil && len(families) == 0 {
		return nil
	}
	var b bytes.Buffer
	e := expfmt.NewEncoder(&b, expfmt.NewFormat(expfmt.TypeProtoDelim))
	for _, f := range families {
		if err := e.Encode(f); err != nil {
			return nil
		}
	}
	return b.Bytes()
}

func (c *Child) statusJSON() json.RawMessage {
	f := c.status.Load()
	if f == nil {
		return nil
	}
	b, err := json.Marshal((*f)())
	if err != nil {
		return nil
	}
	return b
}

// Ready notifies the master that this process serves.
func (c *Child) Ready() { c.reply(Reply{Ready: true, Version: c.Version}) }

// SetGatherer sets the metrics of this process, which are included in the master's /metrics.
func (c *Child) SetGatherer(g prometheus.Gatherer) { c.gatherer.Store(&g) }

// SetStatus sets the status that `wakecall ps` shows for this process.
func (c *Child) SetStatus(f func() map[string]any) { c.status.Store(&f) }

// Replaced reports whether a successor already serves.
func (c *Child) Replaced() bool { return c.replaced.Load() }

// Orphaned reports whether the master has died.
func (c *Child) Orphaned() bool { return c.orphaned.Load() }
