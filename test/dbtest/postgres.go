package dbtest

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/wait"
)

// Postgres is a private PostgreSQL server. Its user wakecall has all rights and needs no password.
type Postgres struct {
	*process.Process
	t    testing.TB
	dir  string
	port int
	as   *syscall.Credential // PostgreSQL does not run as root

	resume func()
}

// StartPostgres starts a server in a directory of its own, with an empty database named wakecall. The test may stop and
// start it.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	s := newPostgres(t)
	// With the order of a language, as on most servers.
	s.run("initdb", "-D", "data", "-U", "wakecall", "-E", "UTF8", "--locale=C", "--locale-provider=icu",
		"--icu-locale=en-US", "-A", "trust", "--no-sync")
	s.Start()
	s.Exec(t, "postgres", "CREATE DATABASE wakecall")
	return s
}

// Standby starts a server that follows this one, until Promote.
func (s *Postgres) Standby(t testing.TB) *Postgres {
	t.Helper()
	standby := newPostgres(t)
	standby.run("pg_basebackup", "-D", "data", "-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "wakecall", "-R",
		"-X", "stream", "-c", "fast", "--no-sync")
	standby.Start()
	return standby
}

// EnableTLS restarts the server with a certificate for 127.0.0.1 that is its own authority, and returns its file.
func (s *Postgres) EnableTLS() (certificate string) {
	s.t.Helper()
	s.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
		"-subj", "/CN=wakecall", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "data/server.key",
		"-out", "data/server.crt")
	s.Exec(s.t, "postgres", "ALTER SYSTEM SET ssl = on")
	s.Kill9()
	s.Start()
	return filepath.Join(s.dir, "data", "server.crt")
}

// Promote makes a standby a server that accepts writes.
func (s *Postgres) Promote() {
	s.t.Helper()
	s.run("pg_ctl", "promote", "-D", "data", "-w")
}

func newPostgres(t testing.TB) *Postgres {
	t.Helper()
	s := &Postgres{t: t, dir: process.Dir(t, "postgres"), port: freeport.TCP(t)}
	if os.Geteuid() == 0 {
		s.as = unprivileged(t)
		root, err := process.Root()
		err = errors.Join(err, os.Chmod(root, 0o711), os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)))
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func unprivileged(t testing.TB) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// command returns one of PostgreSQL's programs, which Debian does not put on the PATH.
func (s *Postgres) command(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	slices.Sort(found)
	path := ""
	if len(found) > 0 {
		path = found[len(found)-1]
	} else {
		path = process.Need(s.t, name, "postgresql")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "TMPDIR="+s.dir, "LC_ALL=C", "PGAPPNAME=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

func (s *Postgres) run(name string, args ...string) {
	s.t.Helper()
	if out, err := s.command(name, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// Start starts the server, also again, on the same directory and port, and waits until it answers.
func (s *Postgres) Start() {
	s.t.Helper()
	s.Process = process.Start(s.t, s.dir, filepath.Base(s.dir), s.command("postgres", "-D", "data",
		"-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "shared_buffers=32MB", "-c", "max_connections=200", "-c", "fsync=off", "-c", "wal_level=replica",
		"-c", "dynamic_shared_memory_type=mmap", "-c", "hot_standby=on", "-c", "autovacuum_naptime=10s"))
	db := s.connect("postgres")
	defer db.Close()
	wait.For(s.t, "PostgreSQL to answer", func() bool {
		if s.Exited() {
			s.t.Fatalf("PostgreSQL has ended: %s", s.Log(1000))
		}
		return db.Ping() == nil
	})
}

// Kill9 kills the server and its children with SIGKILL, as a crash of its host would.
func (s *Postgres) Kill9() {
	s.t.Helper()
	s.Process.Kill9()
	for _, p := range process.Below(s.dir) {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended by now
	}
	wait.For(s.t, "PostgreSQL's processes to end", func() bool { return len(process.Below(s.dir)) == 0 })
}

// Pause stops the server and its children (SIGSTOP), so that it accepts connections and never answers.
func (s *Postgres) Pause() {
	s.t.Helper()
	s.Process.Pause() // starts no more children
	var children []int
	for _, p := range process.Below(s.dir) {
		children = append(children, p.PID)
	}
	s.resume = process.Pause(s.t, children...)
}

// Resume lets a paused server continue.
func (s *Postgres) Resume() {
	s.t.Helper()
	s.resume()
}

// Addr returns the address on which the server listens.
func (s *Postgres) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// DSN returns the DSN of a database of the server, for registry.dsn and wakecall relay.
func (s *Postgres) DSN(database string) string {
	return fmt.Sprintf("postgres://wakecall@%s/%s?sslmode=disable", s.Addr(), database)
}

// ClientEnv returns the environment with which PostgreSQL's programs reach the server.
func (s *Postgres) ClientEnv() []string {
	return []string{"PGHOST=127.0.0.1", "PGPORT=" + strconv.Itoa(s.port), "PGUSER=wakecall"}
}

// Exec runs statements in a database of the server.
func (s *Postgres) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	db := s.connect(database)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", strings.TrimSpace(statement), err)
		}
	}
}

// Connect opens a database of the server for a test.
func (s *Postgres) Connect(t testing.TB, database string) *sql.DB {
	db := s.connect(database)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (s *Postgres) connect(database string) *sql.DB {
	db, err := sql.Open("pgx", s.DSN(database))
	if err != nil {
		panic(err) // the DSN was made by this package
	}
	return db
}
