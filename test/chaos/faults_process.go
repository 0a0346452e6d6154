package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wakecall/wakecall/test/harness"
)

// roles are the children of a master.
var roles = []string{"server", "admin", "timer", "dispatcher", "redis-checker"}

func processKinds() []kind {
	kinds := []kind{
		{"master killed", killMaster}, {"master stopped", stopMaster}, {"host killed", killHost}, {"host stopped", stopHost},
		{"reload", reload}, {"restart", restart}, {"descriptors used up", useUpDescriptors},
	}
	for _, role := range roles {
		kinds = append(kinds, kind{role + " killed", killRole(role)}, kind{role + " stopped", stopRole(role)})
	}
	return kinds
}

// host chooses a random host and returns it with its name.
func (s *site) host(r *rand.Rand) (*harness.Wakecall, string) {
	n := r.IntN(len(s.hosts))
	return s.hosts[n], fmt.Sprintf("host %d", n+1)
}

// signal sends a signal to processes; one that has ended is not an error.
func signal(sig syscall.Signal, pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%v to process %d: %w", sig, pid, err)
		}
	}
	return nil
}

func killRole(role string) func(*site, *rand.Rand) fault {
	return func(s *site, r *rand.Rand) fault {
		h, name := s.host(r)
		which := r.IntN(4)
		return fault{Name: role + " killed", Target: name + " " + role, Inject: func(context.Context) error {
			pids := h.Role(role)
			if len(pids) == 0 {
				return nil // another fault has killed it
			}
			return signal(syscall.SIGKILL, pids[which%len(pids)])
		}}
	}
}

func stopRole(role string) func(*site, *rand.Rand) fault {
	return func(s *site, r *rand.Rand) fault {
		h, name := s.host(r)
		var pids []int
		return fault{
			// longer than its leases
			Name: role + " stopped", Target: name + " " + role, Hold: between(r, 300*time.Millisecond, 9*time.Second),
			Inject: func(context.Context) error {
				pids = h.Role(role)
				return signal(syscall.SIGSTOP, pids...)
			},
			Heal: func(context.Context) error { return signal(syscall.SIGCONT, pids...) },
		}
	}
}

func killMaster(s *site, r *rand.Rand) fault {
	h, name := s.host(r)
	return fault{
		Name: "master killed", Target: name, Hold: between(r, 0, 3*time.Second),
		Inject: func(context.Context) error { h.Kill9(); return nil },
		Heal:   func(context.Context) error { h.Up(); return nil },
	}
}

func stopMaster(s *site, r *rand.Rand) fault {
	h, name := s.host(r)
	return fault{
		Name: "master stopped", Target: name, Hold: between(r, time.Second, 6*time.Second),
		Inject: func(context.Context) error { return signal(syscall.SIGSTOP, h.PID()) },
		Heal:   func(context.Context) error { return signal(syscall.SIGCONT, h.PID()) },
	}
}

// killHost kills every process of a host at once, and starts it again.
func killHost(s *site, r *rand.Rand) fault {
	h, name := s.host(r)
	return fault{
		Name: "host killed", Target: name, Hold: between(r, 0, 4*time.Second),
		Inject: func(context.Context) error {
			children := h.Children()
			h.Kill9()
			return errors.Join(signal(syscall.SIGKILL, children...), signal(syscall.SIGKILL, h.Children()...))
		},
		Heal: func(context.Context) error { h.Up(); return nil },
	}
}

// stopHost stops every process of a host, like a virtual machine that is suspended.
func stopHost(s *site, r *rand.Rand) fault {
	h, name := s.host(r)
	var pids []int
	return fault{
		Name: "host stopped", Target: name, Hold: between(r, time.Second, 8*time.Second),
		Inject: func(context.Context) error {
			pids = append(h.Children(), h.PID())
			return signal(syscall.SIGSTOP, pids...)
		},
		Heal: func(context.Context) error { return signal(syscall.SIGCONT, pids...) },
	}
}

func reload(s *site, r *rand.Rand) fault {
	h, name := s.host(r)
	return fault{
		Name:   "reload",
		Target: name,
		Inject: func(context.Context) error { return signal(syscall.SIGHUP, h.PID()) },
	}
}

func restart(s *site, r *rand.Rand) fault {
	h, name := s.host(r)
	return fault{
		Name: "restart", Target: name,
		Inject: func(context.Context) error { return signal(syscall.SIGTERM, h.PID()) },
		Heal: func(context.Context) error {
			h.WaitExit()
			h.Up()
			return nil
		},
	}
}

// useUpDescriptors limits a process to the descriptors that it has: it can open no connection and no file.
func useUpDescriptors(s *site, r *rand.Rand) fault {
	h, name := s.host(r)
	role := []string{"server", "dispatcher"}[r.IntN(2)]
	before := map[int]unix.Rlimit{}
	return fault{
		Name: "descriptors used up", Target: name + " " + role, Hold: between(r, time.Second, 5*time.Second),
		Inject: func(context.Context) error {
			for _, pid := range h.Role(role) {
				open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
				if err != nil {
					continue // it has ended meanwhile
				}
				var old unix.Rlimit
				if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old); err != nil {
					return fmt.Errorf("reading the limit of process %d: %w", pid, err)
				}
				before[pid] = old
				few := unix.Rlimit{Cur: uint64(len(open)), Max: old.Max}
				if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil); err != nil {
					return fmt.Errorf("limiting process %d: %w", pid, err)
				}
			}
			return nil
		},
		Heal: func(context.Context) error {
			for pid, old := range before {
				if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("giving process %d its limit back: %w", pid, err)
				}
			}
			return nil
		},
	}
}
