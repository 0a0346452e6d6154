package master

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// sockets are the listening sockets of all roles, by configuration key. They stay open as long as the master lives, so
// that connections wait in the backlog instead of being refused while a server is replaced.
type sockets map[string]*socket

type socket struct {
	addr  string
	bound net.Addr
	file  *os.File // inherited by children
}

// isFree reports whether the system chose the port.
func (s *socket) isFree() bool {
	_, port, err := net.SplitHostPort(s.addr)
	return err == nil && port == "0"
}

// logFreePort logs the port chosen for port 0, which nobody could find otherwise.
func (s *socket) logFreePort(log *slog.Logger, key string) {
	if s.isFree() {
		log.Info("listening on a free port", "key", key, "address", s.bound.String())
	}
}

// freePorts returns the addresses whose ports the system chose.
func (old sockets) freePorts() map[string]string {
	addrs := map[string]string{}
	for key, s := range old {
		if s.isFree() {
			addrs[key] = s.bound.String()
		}
	}
	return addrs
}

// openSocket uses the passed socket for an address, or listens on the address.
func openSocket(spec ListenSpec, passed []net.Listener) (*socket, error) {
	l := fitting(passed, spec.Addr)
	if l != nil {
		if err := boundBuffers(l); err != nil {
			return nil, fmt.Errorf("%s: %w", spec.Key, err)
		}
	} else {
		opened, err := Listen(spec.Key, spec.Addr)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }() // the duplicate keeps the socket open
		l = opened.(*net.TCPListener)
	}
	f, err := inheritable(l)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec.Key, err)
	}
	return &socket{spec.Addr, l.Addr(), f}, nil
}

// Listen listens on an address. Its errors name the configuration key.
func Listen(key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &inUse{key, addr}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen on %q: %w", key, addr, err)
	}
	if err := boundBuffers(l.(*net.TCPListener)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", key, err), l.Close())
	}
	return l, nil
}

// sendBuffer is how much of its answers a connection may leave unread, in bytes. Linux doubles it for its own overhead,
// and would otherwise let it grow to 4 MiB: 2,000 clients that request /openapi.yaml and read nothing took 2.3 GB.
const sendBuffer = 64 << 10

// boundBuffers bounds what the accepted connections of l may leave unread. They inherit it on Linux.
func boundBuffers(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(s uintptr) {
		err = unix.SetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
	})
	if err := errors.Join(cerr, err); err != nil {
		return fmt.Errorf("set SO_SNDBUF: %w", err)
	}
	return nil
}

// inUse returns the error for an address in use by another program.
type inUse struct{ key, addr string }

func (e *inUse) Error() string {
	return fmt.Sprintf("%[1]s: the address %[2]s is in use by another program: stop that program "+
		"(ss -ltnp shows which), or set %[1]s to another address", e.key, e.addr)
}

func (e *inUse) Unwrap() error { return syscall.EADDRINUSE }

// inheritable duplicates the socket for os/exec. Passing the duplicate made by TCPListener.File to a child would put it
// into blocking mode, and with it the socket in every child that already serves it.
func inheritable(l *net.TCPListener) (*os.File, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	cerr := raw.Control(func(s uintptr) { fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(cerr, err); err != nil {
		return nil, fmt.Errorf("duplicate socket: %w", err)
	}
	return os.NewFile(uintptr(fd), l.Addr().String()), nil
}

// listenError says which listener could not be opened.
type listenError struct {
	spec ListenSpec
	error
}

func (e *listenError) Unwrap() error { return e.error }

func (s *socket) close() { _ = s.file.Close() }

// open opens the sockets of the roles. It reuses those of old with the same address. On error, old is unchanged.
func (old sockets) open(roles []RoleSpec, passed []net.Listener) (sockets, error) {
	next := sockets{}
	var made []*socket
	for _, r := range roles {
		for _, spec := range r.Listeners {
			if have := old[spec.Key]; have != nil && have.addr == spec.Addr {
				next[spec.Key] = have
				continue
			}
			s, err := openSocket(spec, passed)
			if err != nil {
				err = &listenError{spec, err}
				for _, m := range made {
					m.close()
				}
				return nil, err
			}
			made = append(made, s)
			next[spec.Key] = s
		}
	}
	return next, nil
}

// closeUnused closes the sockets that next does not reuse.
func (old sockets) closeUnused(next sockets) {
	for key, s := range old {
		if next[key] != s {
			s.close()
		}
	}
}
