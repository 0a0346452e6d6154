package chaos

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wakecall/wakecall/test/harness"
)

// fault is one thing that goes wrong. Faults of one place are not combined: they would heal each other.
type fault struct {
	name   string
	place  string
	alone  bool // not together with any other
	inject func() (heal func() error, err error)
}

// errNothing is when there is nothing to break just now, such as a process that is being started again.
var errNothing = errors.New("there is nothing to break just now")

func nothing() error { return nil }

// faults are all that can go wrong here.
func (s *suite) faults() []fault {
	var list []fault
	for n, h := range s.hosts {
		list = append(list, s.hostFaults(fmt.Sprintf("host%d", n+1), h)...)
	}
	for n := range s.redis {
		list = append(list, s.redisFaults(fmt.Sprintf("redis%d", n+1), s.redis[n], s.toRedis[n])...)
	}
	list = append(list, s.databaseFaults()...)
	list = append(list, s.endpointFaults()...)
	if s.smallDisk != "" {
		list = append(list, fault{name: "host1 disk full", place: "host1", inject: func() (func() error, error) { return fill(s.smallDisk) }})
	}
	return list
}

func (s *suite) hostFaults(name string, h *harness.Wakecall) []fault {
	var list []fault
	for _, role := range []string{"server", "timer", "dispatcher", "redis-checker", "admin"} {
		list = append(list,
			fault{name: name + " kill -9 " + role, place: name, inject: func() (func() error, error) {
				return nothing, s.signal(h, role, syscall.SIGKILL)
			}},
			fault{name: name + " stop " + role, place: name, inject: func() (func() error, error) {
				pid, err := s.onePid(h, role)
				if err != nil {
					return nil, err
				}
				return func() error { return ignoreGone(syscall.Kill(pid, syscall.SIGCONT)) }, ignoreGone(syscall.Kill(pid, syscall.SIGSTOP))
			}})
	}
	return append(list,
		fault{name: name + " kill -9 master", place: name, alone: true, inject: func() (func() error, error) {
			h.Kill9()
			return func() error { h.Up(); return nil }, nil
		}},
		fault{name: name + " stop master", place: name, inject: func() (func() error, error) {
			return func() error { h.Resume(); return nil }, ignoreGone(syscall.Kill(h.PID(), syscall.SIGSTOP))
		}},
		fault{name: name + " reload", place: name, inject: func() (func() error, error) {
			return nothing, ignoreGone(syscall.Kill(h.PID(), syscall.SIGHUP))
		}},
		fault{name: name + " out of descriptors", place: name, inject: func() (func() error, error) { return s.starve(h) }},
	)
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

func (s *suite) onePid(h *harness.Wakecall, role string) (int, error) {
	pids := h.Role(role)
	if len(pids) == 0 {
		return 0, errNothing
	}
	return pids[s.rng.IntN(len(pids))], nil
}

func (s *suite) signal(h *harness.Wakecall, role string, sig syscall.Signal) error {
	pid, err := s.onePid(h, role)
	if err != nil {
		return err
	}
	return ignoreGone(syscall.Kill(pid, sig))
}

// starve leaves a server no descriptor beside those that it has.
func (s *suite) starve(h *harness.Wakecall) (func() error, error) {
	pid, err := s.onePid(h, "server")
	if err != nil {
		return nil, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, errNothing
	}
	var was unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
		return nil, err
	}
	less := unix.Rlimit{Cur: uint64(len(open)) + 1, Max: was.Max}
	heal := func() error { return ignoreGone(unix.Prlimit(pid, unix.RLIMIT_NOFILE, &was, nil)) }
	return heal, ignoreGone(unix.Prlimit(pid, unix.RLIMIT_NOFILE, &less, nil))
}

func (s *suite) redisFaults(name string, r *harness.Redis, p *harness.Proxy) []fault {
	proxied := func(what string, do func()) fault {
		return fault{name: name + " " + what, place: name, inject: func() (func() error, error) {
			do()
			return func() error { p.Heal(); return nil }, nil
		}}
	}
	restart := func() error { r.Restart(); return nil }
	return []fault{
		proxied("slow", func() { p.Delay(150 * time.Millisecond) }),
		proxied("cut off", p.Cut),
		proxied("silent", p.Silence),
		proxied("replies lost", func() { p.Swallow(0.1) }),
		{name: name + " kill -9", place: name, inject: func() (func() error, error) { r.Kill9(); return restart, nil }},
		{name: name + " stop", place: name, inject: func() (func() error, error) {
			return func() error { r.Resume(); return nil }, ignoreGone(syscall.Kill(r.PID(), syscall.SIGSTOP))
		}},
		{name: name + " full", place: name, inject: func() (func() error, error) {
			r.ConfigSet("maxmemory", "1mb")
			return func() error { r.ConfigSet("maxmemory", "0"); return nil }, nil
		}},
		{name: name + " forgets its last seconds", place: name, alone: true, inject: func() (func() error, error) {
			forget := r.Remember()
			time.Sleep(time.Duration(500+s.rng.IntN(1500)) * time.Millisecond)
			forget()
			return restart, nil
		}},
		{name: name + " loses everything", place: name, alone: true, inject: func() (func() error, error) { r.Lose(); return restart, nil }},
	}
}

func (s *suite) databaseFaults() []fault {
	return []fault{
		{name: "database kill -9", place: "database", inject: func() (func() error, error) {
			s.db.Kill9()
			return func() error { s.db.Start(); return nil }, nil
		}},
		{name: "database stop", place: "database", inject: func() (func() error, error) {
			return func() error { s.db.Resume(); return nil }, ignoreGone(syscall.Kill(s.db.PID(), syscall.SIGSTOP))
		}},
		{name: "database slow", place: "database", inject: func() (func() error, error) {
			s.toDB.Delay(300 * time.Millisecond)
			return func() error { s.toDB.Heal(); return nil }, nil
		}},
		{name: "database locked", place: "database", inject: func() (func() error, error) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.db.Exec("LOCK TABLES topics WRITE, shards WRITE, samples WRITE; SELECT SLEEP(3)")
			}()
			return func() error { <-done; return nil }, nil
		}},
	}
}

func (s *suite) endpointFaults() []fault {
	var list []fault
	for name, b := range map[string]harness.Behaviour{
		"hangs": harness.Hang(), "drips": harness.Drip(), "resets": harness.Reset(), "says 500": harness.Status(500),
		"talks garbage": harness.Garbage(), "floods": flood, "says half": harness.HalfAnswer(),
	} {
		list = append(list, fault{name: "endpoint " + name, place: "endpoint", inject: func() (func() error, error) {
			s.endpoint.Set("/good", b)
			return func() error { s.endpoint.Set("/good", nil); return nil }, nil
		}})
	}
	list = append(list, fault{name: "endpoint away", place: "endpoint", inject: func() (func() error, error) {
		s.endpoint.Stop()
		return func() error { s.endpoint.Start(); return nil }, nil
	}})
	sortFaults(list) // a map has no order, and a seed must mean the same each time
	return list
}

// fill fills a disk.
func fill(dir string) (heal func() error, err error) {
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := io.Copy(f, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		return nil, fmt.Errorf("fill %s: %w", dir, err)
	}
	return func() error { return os.Remove(path) }, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// flood says no at length. (What is said with a 200 is a yes after 64 KiB of it.)
func flood(w http.ResponseWriter, r *http.Request, c harness.Call) {
	w.WriteHeader(http.StatusInternalServerError)
	harness.Huge(8<<20, func(int64) {})(w, r, c)
}

// flaky says no to three of ten.
func flaky() harness.Behaviour {
	no := harness.Status(503)
	return harness.Behaviour(func(w http.ResponseWriter, r *http.Request, c harness.Call) {
		if rand.Float64() < 0.3 {
			no(w, r, c)
		}
	})
}
