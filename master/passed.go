package master

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// firstPassed is the descriptor of the first socket passed by a service manager.
const firstPassed = 3

// Passed takes over the listening sockets passed by a service manager, as sd_listen_fds(3) describes. Child processes
// inherit neither the sockets nor the variables. It must be called once, before any process is started.
func Passed() ([]net.Listener, error) {
	if err := checkPassed(os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")); err != nil {
		return nil, err
	}
	return activation.Listeners()
}

// checkPassed rejects values that activation would silently ignore, and descriptors of other files of this process.
func checkPassed(pid, fds, names string) error {
	if pid == "" || fds == "" {
		return nil
	}
	if _, err := strconv.ParseUint(pid, 10, 31); err != nil {
		return fmt.Errorf("LISTEN_PID=%q is not a process id; unset it if no sockets are passed in", pid)
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return nil // meant for a parent process that did not unset it
	}
	n, err := strconv.Atoi(fds)
	if err != nil || n < 1 {
		return fmt.Errorf("LISTEN_FDS=%q is not a number of sockets; unset it if none are passed in", fds)
	}
	if given := strings.Count(names, ":") + 1; names != "" && given != n {
		return fmt.Errorf("LISTEN_FDS=%d, but LISTEN_FDNAMES=%q has %d names: set one for each socket, or none",
			n, names, given)
	}
	for fd := firstPassed; fd < firstPassed+n; fd++ {
		listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		if err == nil && listening == 0 {
			err = syscall.EINVAL
		}
		if err != nil {
			return fmt.Errorf("LISTEN_FDS=%d, but descriptor %d is not a listening stream socket: %w", n, fd, err)
		}
	}
	return nil
}

// fitting returns the passed socket for an address, or nil.
func fitting(passed []net.Listener, addr string) *net.TCPListener {
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil { // net.Listen will return it
		return nil
	}
	for _, l := range passed {
		have, ok := l.(*net.TCPListener)
		if ok && covers(have.Addr().(*net.TCPAddr), want) {
			return have
		}
	}
	return nil
}

// covers reports whether a socket on have accepts everything that a socket on want would. A socket on all IPv6
// addresses also accepts IPv4.
func covers(have, want *net.TCPAddr) bool {
	if have.Port != want.Port {
		return false
	}
	if len(want.IP) == 0 || want.IP.IsUnspecified() {
		return have.IP.IsUnspecified() && (have.IP.To4() == nil || want.IP.To4() != nil)
	}
	return have.IP.Equal(want.IP) && have.Zone == want.Zone
}

// warnUnused logs passed sockets that no listener uses, because connections to them would wait forever.
func (o *Options) warnUnused() {
	used := []net.Listener{}
	add := func(addr string) {
		if l := fitting(o.Passed, addr); l != nil {
			used = append(used, l)
		}
	}
	add(o.MetricsAddr)
	for _, r := range o.Roles {
		for _, spec := range r.Listeners {
			add(spec.Addr)
		}
	}
	for _, l := range o.Passed {
		if !slices.Contains(used, l) {
			o.Logger.Warn("passed socket not served: it has none of the configured addresses",
				"address", l.Addr().String())
		}
	}
}
