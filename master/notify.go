package master

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// systemd notifies the service manager of the master's state, by sd_notify(3). Without $NOTIFY_SOCKET it does nothing.
type systemd struct {
	every time.Duration // between watchdog notifications; 0: none
}

func newSystemd() systemd {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil { // systemd ignores such values, too
		return systemd{}
	}
	return systemd{every: limit / 3}
}

const notifyTimeout = time.Second

// tell sends lines to systemd, best effort: a service manager that does not read must not block the master.
func (s systemd) tell(lines ...string) {
	sent := make(chan struct{})
	go func() { // outlives tell only if systemd itself hangs
		defer close(sent)
		_, _ = daemon.SdNotify(false, strings.Join(lines, "\n"))
	}()
	select {
	case <-sent:
	case <-time.After(notifyTimeout):
	}
}

func (s systemd) ready(status string) { s.tell(daemon.SdNotifyReady, "STATUS="+status) }

// reloading must include the time, so that systemd can tell this reload from an earlier one.
func (s systemd) reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return
	}
	s.tell(daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000),
		"STATUS=replacing the processes one by one")
}

// starting asks for more time while data is loaded. Otherwise TimeoutStartSec would end every start.
func (s systemd) starting(limit time.Duration) {
	s.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", limit.Microseconds()),
		"STATUS=waiting for the managed redis-server, which is loading its data")
}

// stopping asks for as much time as a graceful stop may take.
func (s systemd) stopping(limit time.Duration) {
	s.tell(daemon.SdNotifyStopping, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", (limit+5*time.Second).Microseconds()),
		"STATUS=stopping; waiting for callbacks in flight")
}

// watchdog notifies systemd as long as the tree can be read, so a master that hangs on one of its locks stops
// notifying.
func (m *Master) watchdog(ctx context.Context) {
	if m.systemd.every <= 0 {
		return
	}
	t := time.NewTicker(m.systemd.every)
	defer t.Stop()
	for {
		m.tree()
		m.systemd.tell(daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}
