package master

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// systemd tells the service manager how the master is, as sd_notify(3) has it. Without $NOTIFY_SOCKET it tells nobody.
type systemd struct {
	addr  *net.UnixAddr
	every time.Duration // between signs of life; 0: none are wanted
}

func newSystemd() systemd {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return systemd{}
	}
	if strings.HasPrefix(path, "@") { // an abstract socket
		path = "\x00" + path[1:]
	}
	s := systemd{addr: &net.UnixAddr{Name: path, Net: "unixgram"}}
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		s.every = time.Duration(usec) * time.Microsecond / 3
	}
	return s
}

// tell is best effort: a service manager that does not listen must not keep a master from its work.
func (s systemd) tell(lines ...string) {
	if s.addr == nil {
		return
	}
	c, err := net.DialUnix(s.addr.Net, nil, s.addr)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write([]byte(strings.Join(lines, "\n")))
}

func (s systemd) ready(status string) { s.tell("READY=1", "STATUS="+status) }

// reloading has to carry the time, so that the manager can tell it from the end of an earlier reload.
func (s systemd) reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return
	}
	s.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000), "STATUS=replacing the processes one by one")
}

// stopping asks for as long as an orderly stop may take.
func (s systemd) stopping(limit time.Duration) {
	s.tell("STOPPING=1", fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (limit+5*time.Second).Microseconds()), "STATUS=stopping; calls under way are finished")
}

// watch gives signs of life as long as the master's own parts can be looked at: a master that hangs on one of its locks gives none.
func (m *Master) watch(ctx context.Context) {
	if m.systemd.every <= 0 {
		return
	}
	t := time.NewTicker(m.systemd.every)
	defer t.Stop()
	for {
		m.tree()
		m.systemd.tell("WATCHDOG=1")
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
