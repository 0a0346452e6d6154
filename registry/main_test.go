package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		sharedServer.stop()
		os.Exit(code)
	}))
}

const patience = 30 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// mariadb is a private server on a Unix socket, in a directory of its own.
type mariadb struct {
	dir  string
	args []string
	cmd  *exec.Cmd
}

// sharedServer is for the tests that do not stop it; each has a database of its own.
var sharedServer struct {
	mariadb
	once      sync.Once
	err       error
	databases atomic.Int64
}

// newDatabase is the DSN of an empty database on the shared server.
func newDatabase(t *testing.T) string {
	t.Helper()
	needMariaDB(t)
	s := &sharedServer
	s.once.Do(func() { s.err = s.install() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	name := fmt.Sprint("test", s.databases.Add(1))
	s.exec(t, "", "CREATE DATABASE "+name)
	return s.dsn(name)
}

// startMariaDB is a server that the test may stop and start.
func startMariaDB(t *testing.T) *mariadb {
	t.Helper()
	needMariaDB(t)
	m := &mariadb{}
	t.Cleanup(m.stop)
	if err := m.install(); err != nil {
		t.Fatal(err)
	}
	m.exec(t, "", "CREATE DATABASE wakecall")
	return m
}

func needMariaDB(t *testing.T) {
	if os.Getenv("WAKECALL_TEST_SHORT") != "" {
		t.Skip("WAKECALL_TEST_SHORT is set: no MariaDB")
	}
}

func (m *mariadb) install() (err error) {
	if m.dir, err = os.MkdirTemp("", "wkr"); err != nil { // short: a socket's path has at most 107 bytes
		return err
	}
	var asRoot []string
	if os.Geteuid() == 0 {
		asRoot = []string{"--user=root"}
	}
	install, err := exec.LookPath("mariadb-install-db")
	if err != nil {
		return fmt.Errorf("%w (apt-get install mariadb-server, or set WAKECALL_TEST_SHORT=1 to do without)", err)
	}
	cmd := exec.Command(install, append([]string{"--no-defaults", "--datadir=" + m.dir + "/data",
		"--auth-root-authentication-method=normal", "--skip-test-db"}, asRoot...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	m.args = append([]string{"--no-defaults", "--datadir=" + m.dir + "/data", "--socket=" + m.dir + "/s", "--pid-file=" + m.dir + "/pid",
		"--skip-networking", "--innodb-buffer-pool-size=16M", "--performance-schema=OFF", "--innodb-flush-log-at-trx-commit=2"}, asRoot...)
	return m.start()
}

// start starts the server, again if need be, and waits until it answers.
func (m *mariadb) start() error {
	binary, err := exec.LookPath("mariadbd")
	if errors.Is(err, exec.ErrNotFound) {
		binary, err = exec.LookPath("/usr/sbin/mariadbd") // not on every user's PATH
	}
	if err != nil {
		return fmt.Errorf("mariadbd: %w (apt-get install mariadb-server, or set WAKECALL_TEST_SHORT=1 to do without)", err)
	}
	m.cmd = exec.Command(binary, m.args...)
	if err := m.cmd.Start(); err != nil {
		return err
	}
	db := m.connect("")
	defer db.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if err = db.Ping(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

func (m *mariadb) kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
	m.cmd = nil
}

func (m *mariadb) stop() {
	if m.cmd != nil {
		m.kill()
	}
	_ = os.RemoveAll(m.dir)
}

func (m *mariadb) dsn(database string) string {
	return "mysql://root@unix(" + m.dir + "/s)/" + database
}

func (m *mariadb) connect(database string) *sql.DB {
	db, err := sql.Open("mysql", strings.TrimPrefix(m.dsn(database), "mysql://"))
	if err != nil {
		panic(err)
	}
	return db
}

func (m *mariadb) exec(t *testing.T, database, query string) {
	t.Helper()
	db := m.connect(database)
	defer db.Close()
	if _, err := db.Exec(query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func newSQLite(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "r.db") }

// onBoth runs a test against an empty database of either kind.
func onBoth(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, newSQLite(t)) })
	t.Run("mariadb", func(t *testing.T) { test(t, newDatabase(t)) })
}

// open opens a registry that follows changes until the test ends.
func open(t *testing.T, o Options) *Registry {
	t.Helper()
	o.Migrate = true
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait(); _ = r.Close() })
	return r
}

func topic(name string) Topic {
	t := NewTopic(name)
	t.CallbackURL = "http://127.0.0.1:1/hook"
	return t
}

const (
	oneSecret     = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	anotherSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	thirdSecret   = "whsec_D3FVsBQIhrscChlQIMV+b5sSYspob7oE"
)

func put(t *testing.T, r *Registry, x Topic) {
	t.Helper()
	if _, err := r.PutTopic(t.Context(), "me", x); err != nil {
		t.Fatal(err)
	}
}
