package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

const (
	moment = 300 * time.Millisecond
	second = time.Second
)

// roles are the children of a master.
var roles = []string{"server", "admin", "timer", "dispatcher", "redis-checker"}

// catalogue returns every kind of fault that this machine and the length of the run permit.
func catalogue(s *site) []kind {
	kinds := []kind{
		host("master killed", 0, 3*second, func(h *harness.Wakecall) (endFunc, error) { h.Kill9(); return up(h), nil }),
		host("master stopped", second, 6*second, func(h *harness.Wakecall) (endFunc, error) { return stop(h.PID()) }),
		host("host killed", 0, 4*second, killHost),
		// like a virtual machine that is suspended
		host("host stopped", second, 8*second, func(h *harness.Wakecall) (endFunc, error) {
			return stop(append(h.Children(), h.PID())...)
		}),
		host("reload", 0, 0, func(h *harness.Wakecall) (endFunc, error) {
			return nil, process.Signal(syscall.SIGHUP, h.PID())
		}),
		host("restart", 0, 0, func(h *harness.Wakecall) (endFunc, error) {
			h.Signal(syscall.SIGTERM)
			return func() error { h.WaitExit(); h.Up(); return nil }, nil
		}),
		role("descriptors used up", "server", second, 5*second, useUpDescriptors),
		role("descriptors used up", "dispatcher", second, 5*second, useUpDescriptors),

		redis("redis killed", 0, 5*second, func(sh *shard) (endFunc, error) {
			sh.server.Kill9()
			return restart(sh), nil
		}),
		redis("redis stopped", moment, 9*second, func(sh *shard) (endFunc, error) { return stop(sh.server.PID()) }),
		redis("redis full", second, 6*second, fillRedis),
		redis("redis forgot its last second", 0, 3*second, makeRedisForget),
		redis("redis lost everything", 0, 3*second, func(sh *shard) (endFunc, error) {
			sh.server.Lose()
			return restart(sh), nil
		}),
		redis("redis flushed", 0, 0, func(sh *shard) (endFunc, error) { return nil, sh.server.Try("FLUSHALL") }),
		network("redis network slow", func(r *rand.Rand) harness.Trouble {
			return harness.Trouble{Delay: between(r, 20*time.Millisecond, 400*time.Millisecond)}
		}),
		network("redis network cut", always(harness.Trouble{Cut: true})),
		network("redis network held up", always(harness.Trouble{Hold: true})),
		network("redis answers swallowed", always(harness.Trouble{Swallow: true})),
		network("redis answers lost", func(r *rand.Rand) harness.Trouble {
			return harness.Trouble{Lose: 1 / float64(3+r.IntN(20))}
		}),
		network("redis network trickles", always(harness.Trouble{Trickle: true})),

		at("database", "database killed", 0, 5*second, func() (endFunc, error) {
			s.db.Kill9()
			return func() error { s.db.Start(); return nil }, nil
		}),
		at("database", "database stopped", second, 9*second, func() (endFunc, error) {
			s.db.Pause()
			return func() error { s.db.Resume(); return nil }, nil
		}),
		at("database", "database schema locked", second, 8*second, s.lockDatabase),
		at("database network", "database slow", second, 8*second, trouble(s.dbProxy, harness.Trouble{Delay: moment})),

		at("endpoints", "endpoints refuse", moment, 5*second, func() (endFunc, error) {
			s.endpoint.Stop()
			return s.endpoint.Start, nil
		}),
		endpoint("hangs", harness.Hang()),
		endpoint("drips", harness.Drip()),
		endpoint("resets", harness.Reset()),
		endpoint("answers 500", harness.Status(http.StatusInternalServerError)),
		endpoint("hangs up in mid-answer", harness.HalfAnswer()),
		endpoint("asks to wait", harness.Status(http.StatusServiceUnavailable, "Retry-After", "2")),
		endpoint("answers without end", harness.Huge(1<<40, func(int64) {})),
	}
	if deployment != "cluster" { // where another server cannot take a master's address
		kinds = append(kinds,
			redis("redis replica promoted", moment, 4*second, s.promote(0)),
			redis("redis lagging replica promoted", moment, 4*second, s.promote(moment)))
	}
	if deployment == "shards" { // needs the database, so no other fault affects that meanwhile
		kinds = append(kinds,
			at("database", "shard drained", 2*second, 10*second, s.drainShard("redis-1")),
			at("database", "shard drained", 2*second, 10*second, s.drainShard("redis-2")))
	}
	for _, name := range roles {
		kinds = append(kinds,
			role(name+" killed", name, 0, 0, killOne),
			role(name+" stopped", name, moment, 9*second, stop)) // longer than its leases
	}
	for n, disk := range s.disks {
		kinds = append(kinds, at(fmt.Sprintf("host %d journal", n+1), "journal's disk full", second, 6*second,
			func() (endFunc, error) { return disk.Free, disk.Fill() }))
	}
	for _, age := range []time.Duration{time.Minute, oldestBackup} {
		if length > age {
			kinds = append(kinds, s.restored(age))
		}
	}
	return kinds
}

// at returns a kind with one target.
func at(target, name string, from, to time.Duration, begin beginFunc) kind {
	return kind{name, from, to, func(*site, *rand.Rand) (string, beginFunc) { return target, begin }}
}

// host returns a kind that affects a host.
func host(name string, from, to time.Duration, begin func(*harness.Wakecall) (endFunc, error)) kind {
	return kind{name, from, to, func(s *site, r *rand.Rand) (string, beginFunc) {
		n := r.IntN(len(s.hosts))
		return fmt.Sprintf("host %d", n+1), func() (endFunc, error) { return begin(s.hosts[n]) }
	}}
}

// role returns a kind that affects the processes of a role on a host.
func role(name, of string, from, to time.Duration, begin func(pids ...int) (endFunc, error)) kind {
	return kind{name, from, to, func(s *site, r *rand.Rand) (string, beginFunc) {
		n := r.IntN(len(s.hosts))
		return fmt.Sprintf("host %d %s", n+1, of), func() (endFunc, error) { return begin(s.hosts[n].Role(of)...) }
	}}
}

// redis returns a kind that affects a shard's server.
func redis(name string, from, to time.Duration, begin func(*shard) (endFunc, error)) kind {
	return kind{name, from, to, func(s *site, r *rand.Rand) (string, beginFunc) {
		n := r.IntN(len(s.shards))
		return fmt.Sprintf("redis %d", n+1), func() (endFunc, error) { return begin(s.shards[n]) }
	}}
}

// network returns a kind that affects the network between all processes and one shard.
func network(name string, fault func(*rand.Rand) harness.Trouble) kind {
	return kind{name, moment, 8 * second, func(s *site, r *rand.Rand) (string, beginFunc) {
		n := r.IntN(len(s.shards))
		return fmt.Sprintf("redis %d network", n+1), trouble(s.shards[n].proxy, fault(r))
	}}
}

func always(fault harness.Trouble) func(*rand.Rand) harness.Trouble {
	return func(*rand.Rand) harness.Trouble { return fault }
}

// endpoint returns a kind that affects the endpoint of one topic.
func endpoint(name string, b harness.Behaviour) kind {
	return kind{"endpoint " + name, moment, 5 * second, func(s *site, r *rand.Rand) (string, beginFunc) {
		called := named(false)
		topic := called[r.IntN(len(called))]
		return "endpoint of " + topic, func() (endFunc, error) {
			s.endpoint.Set("/"+topic, b)
			return func() error { s.endpoint.Set("/"+topic, healthy()[topic]); return nil }, nil
		}
	}}
}

func trouble(p *harness.Proxy, fault harness.Trouble) beginFunc {
	return func() (endFunc, error) {
		p.Set(fault)
		return func() error { p.Heal(); return nil }, nil
	}
}

func up(h *harness.Wakecall) endFunc { return func() error { h.Up(); return nil } }

func restart(sh *shard) endFunc { return func() error { sh.server.Restart(); return nil } }

func stop(pids ...int) (endFunc, error) {
	return func() error { return process.Signal(syscall.SIGCONT, pids...) }, process.Signal(syscall.SIGSTOP, pids...)
}

// killOne kills one of the processes; another fault may have killed all of them.
func killOne(pids ...int) (endFunc, error) {
	return nil, process.Signal(syscall.SIGKILL, pids[:min(len(pids), 1)]...)
}

// killHost kills every process of a host at once.
func killHost(h *harness.Wakecall) (endFunc, error) {
	children := h.Children()
	h.Kill9()
	return up(h), process.Signal(syscall.SIGKILL, append(children, h.Children()...)...)
}

// useUpDescriptors limits processes to the descriptors that they have: they can open no connection and no file.
func useUpDescriptors(pids ...int) (endFunc, error) {
	var ends []endFunc
	for _, pid := range pids {
		open, err := process.Files(pid)
		if err != nil {
			continue // it has ended meanwhile
		}
		end, err := process.LimitFiles(pid, open)
		if err != nil {
			return nil, err
		}
		ends = append(ends, end)
	}
	return func() (err error) {
		for _, end := range ends {
			err = errors.Join(err, end())
		}
		return err
	}, nil
}

// fillRedis leaves no memory for anything new.
func fillRedis(sh *shard) (endFunc, error) {
	used, err := sh.server.Info("Memory", "used_memory")
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(used, 10, 64)
	if err != nil {
		return nil, err
	}
	return func() error { return sh.server.Try("CONFIG", "SET", "maxmemory", 0) },
		sh.server.Try("CONFIG", "SET", "maxmemory", max(n-(64<<10), 1))
}

// makeRedisForget kills the server and removes the latest writes from its file, as appendfsync everysec with a slow
// disk would.
func makeRedisForget(sh *shard) (endFunc, error) {
	forget := sh.server.Remember()
	time.Sleep(time.Second)
	forget()
	return restart(sh), nil
}

// oldestBackup is the maximum age of a backup from which a server is restored.
const oldestBackup = 10 * time.Minute

// restored restores a server from its latest backup of that age, or the oldest one.
func (s *site) restored(age time.Duration) kind {
	name := fmt.Sprintf("redis restored from %.0f s ago", age.Seconds())
	return redis(name, 0, 3*second, func(sh *shard) (endFunc, error) {
		from := sh.backups[0]
		for _, b := range sh.backups {
			if time.Since(b.at) >= age {
				from = b
			}
		}
		s.t.Logf("the backup is %s old", time.Since(from.at).Round(time.Millisecond))
		return restart(sh), sh.server.Restore(from.dir)
	})
}

// promote kills a server that has a replica, which lags by some time: the writes that it has not received are lost. The
// replica gets its address at once, and refuses writes at first.
func (s *site) promote(lag time.Duration) func(*shard) (endFunc, error) {
	return func(sh *shard) (endFunc, error) {
		replica := s.newReplica()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := replica.Follow(ctx, sh.server); err != nil {
			return nil, fmt.Errorf("follow: %w", err)
		}
		if lag > 0 {
			replica.Pause()
			time.Sleep(lag)
		}
		sh.server.Kill9()
		replica.Resume()
		sh.proxy.SetTarget(replica.Addr())
		return func() error {
			sh.server, sh.backups = replica, nil
			return sh.server.Try("REPLICAOF", "NO", "ONE")
		}, nil
	}
}

// locks have a query for all tables and the statement that locks them. With a long deadlock_timeout, PostgreSQL ends the
// other transaction of a deadlock.
var locks = map[string]struct{ tables, lock string }{
	"mariadb": {"SELECT GROUP_CONCAT('`', table_name, '` WRITE') FROM information_schema.tables " +
		"WHERE table_schema = DATABASE()", "LOCK TABLES "},
	"postgres": {"SELECT string_agg(quote_ident(table_name), ', ') FROM information_schema.tables " +
		"WHERE table_schema = CURRENT_SCHEMA", "BEGIN; SET LOCAL deadlock_timeout = '1min'; LOCK TABLE "},
}

// lockDatabase holds a lock on every table, so that nobody reads or writes any.
func (s *site) lockDatabase() (endFunc, error) {
	ctx := context.Background()
	db := s.db.Connect(s.t, "wakecall")
	db.SetMaxOpenConns(1) // the connection holds the lock
	var tables string
	err := db.QueryRowContext(ctx, locks[databaseKind].tables).Scan(&tables)
	if err == nil {
		_, err = db.ExecContext(ctx, locks[databaseKind].lock+tables)
	}
	return db.Close, err
}

// drainShard drains a shard into the other one, and activates it again.
func (s *site) drainShard(name string) beginFunc {
	put := func(state string) error {
		s.dbProxy.Heal()
		if code, output := s.hosts[0].Run("shard", "put", name, "--state", state); code != 0 {
			return fmt.Errorf("shard put %s --state %s exits %d: %s", name, state, code, output)
		}
		return nil
	}
	return func() (endFunc, error) { return func() error { return put("active") }, put("draining") }
}

// chosen returns the kinds with one of the words, separated by commas, in their names; "": all.
func chosen(kinds []kind, words string) []kind {
	return slices.DeleteFunc(kinds, func(k kind) bool {
		named := func(word string) bool { return strings.Contains(k.name, word) }
		return !slices.ContainsFunc(strings.Split(words, ","), named)
	})
}
