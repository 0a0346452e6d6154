package master

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstPassed is the descriptor of the first socket that a service manager passes in.
const firstPassed = 3

// Passed takes over the listening sockets that a service manager passes in, as sd_listen_fds(3) has it. They and what tells of them are not
// inherited by other processes. It is called once, before any process is started.
func Passed() ([]net.Listener, error) {
	pid, fds, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, fmt.Errorf("unset %s: %w", name, err)
		}
	}
	if pid == "" || fds == "" {
		return nil, nil
	}
	if _, err := strconv.ParseUint(pid, 10, 31); err != nil {
		return nil, fmt.Errorf("LISTEN_PID=%q is not a process id: it says for which process sockets are passed in; unset it if there are none", pid)
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return nil, nil // for a process before this one, which did not unset it
	}
	n, err := strconv.Atoi(fds)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("LISTEN_FDS=%q is not a number of sockets passed in from descriptor %d on: unset it if there are none", fds, firstPassed)
	}
	given := strings.Split(names, ":")
	if names != "" && len(given) != n {
		return nil, fmt.Errorf("LISTEN_FDS=%d, and LISTEN_FDNAMES=%q has %d names: there must be one for each socket, or none at all", n, names, len(given))
	}
	var list []net.Listener
	for fd := firstPassed; fd < firstPassed+n; fd++ {
		l, err := takeOver(fd)
		if err != nil {
			return nil, fmt.Errorf("LISTEN_FDS=%d (LISTEN_FDNAMES=%q), but descriptor %d is not a listening stream socket: %w", n, names, fd, err)
		}
		list = append(list, l)
	}
	return list, nil
}

func takeOver(fd int) (net.Listener, error) {
	// Asked first: the descriptor may be another one of this process, which must stay as it is.
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err == nil && listening == 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "passed")
	defer func() { _ = f.Close() }() // net has its own
	return net.FileListener(f)
}

// fitting is the one of the sockets passed in that listens on an address, nil when there is none.
func fitting(passed []net.Listener, addr string) *net.TCPListener {
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil // Listen says why
	}
	for _, l := range passed {
		have, ok := l.(*net.TCPListener)
		if ok && covers(have.Addr().(*net.TCPAddr), want) {
			return have
		}
	}
	return nil
}

// covers says whether a socket on have takes all that one on want would. That of every IPv6 address takes IPv4 as well.
func covers(have, want *net.TCPAddr) bool {
	if have.Port != want.Port {
		return false
	}
	if len(want.IP) == 0 || want.IP.IsUnspecified() {
		return have.IP.IsUnspecified() && (have.IP.To4() == nil || want.IP.To4() != nil)
	}
	return have.IP.Equal(want.IP) && have.Zone == want.Zone
}

// tellUnfit warns of sockets that were passed in for nothing: connections to them would wait for ever.
func (o *Options) tellUnfit() {
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
			o.Logger.Warn("a socket that was passed in is at none of the configuration's addresses, and is not served", "address", l.Addr().String())
		}
	}
}
