package dbtest

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/wakecall/wakecall/test/freeport"
	"github.com/wakecall/wakecall/test/harness/process"
	"github.com/wakecall/wakecall/test/wait"
)

// account is the user that has all rights on the server, with its password.
const account = "wakecall:secret"

// Server is a private MariaDB server.
type Server struct {
	*process.Process
	t    testing.TB
	dir  string
	port int
}

// StartServer starts a server in a directory of its own, with an empty database named wakecall. The test may stop and
// start it.
func StartServer(t testing.TB) *Server {
	t.Helper()
	s := install(t)
	s.Exec(t, "", "CREATE DATABASE wakecall")
	return s
}

func install(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, dir: process.Dir(t, "mariadb"), port: freeport.TCP(t)}
	cmd := s.command("mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	s.Start()
	return s
}

// command returns one of MariaDB's programs. Each server has a directory of its own for temporary tables: a server that
// starts deletes those of others.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	data := "--datadir=" + filepath.Join(s.dir, "data")
	args = append([]string{"--no-defaults", data, "--skip-name-resolve"}, args...)
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	cmd := exec.Command(process.Need(s.t, name, "mariadb-server"), args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "TMPDIR="+s.dir)
	return cmd
}

// Start starts the server, also again, on the same directory and port, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	user, password, _ := strings.Cut(account, ":")
	setup := filepath.Join(s.dir, "setup.sql") // one statement per line, as it requires
	err := os.WriteFile(setup, fmt.Appendf(nil, "CREATE USER IF NOT EXISTS '%s'@'%%' IDENTIFIED BY '%s';\n"+
		"GRANT ALL ON *.* TO '%[1]s'@'%%';\n", user, password), 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Process = process.Start(s.t, s.dir, filepath.Base(s.dir), s.command("mariadbd",
		"--socket="+filepath.Join(s.dir, "sock"), "--pid-file="+filepath.Join(s.dir, "pid"), "--bind-address=127.0.0.1",
		"--port="+strconv.Itoa(s.port), "--init-file="+setup, "--skip-log-bin", "--innodb-buffer-pool-size=16M",
		"--innodb-flush-log-at-trx-commit=2", "--performance-schema=OFF", "--max-connections=500",
		"--max-connect-errors=1000000"))
	db := s.connect("")
	defer db.Close()
	wait.For(s.t, "MariaDB to answer", func() bool {
		if s.Exited() {
			s.t.Fatalf("MariaDB has ended: %s", s.Log(1000))
		}
		return db.Ping() == nil
	})
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// DSN returns the DSN of a database of the server, for registry.dsn.
func (s *Server) DSN(database string) string {
	return "mysql://" + account + "@tcp(" + s.Addr() + ")/" + database
}

// ClientConfig returns the contents of a ~/.my.cnf with which MariaDB's programs reach the server.
func (s *Server) ClientConfig() string {
	user, password, _ := strings.Cut(account, ":")
	return fmt.Sprintf("[client]\nprotocol=tcp\nhost=127.0.0.1\nport=%d\nuser=%s\npassword=%s\n", s.port, user, password)
}

// Exec runs statements in a database of the server.
func (s *Server) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	db := s.connect(database)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Connect opens a database of the server for a test.
func (s *Server) Connect(t testing.TB, database string) *sql.DB {
	db := s.connect(database)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (s *Server) connect(database string) *sql.DB {
	db, err := sql.Open("mysql", strings.TrimPrefix(s.DSN(database), "mysql://"))
	if err != nil {
		panic(err) // the DSN was made by this package
	}
	return db
}
