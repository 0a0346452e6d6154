package dbtest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/wakecall/wakecall/test/wait"
)

const startLimit = wait.Limit

// Server is a private MariaDB server on a Unix socket, in a directory of its own.
type Server struct {
	dir  string
	args []string
	cmd  *exec.Cmd
}

// StartServer starts a server that the test may stop and start, with an empty database named wakecall.
func StartServer(t testing.TB) *Server {
	t.Helper()
	needMariaDB(t)
	s := &Server{}
	t.Cleanup(s.stop)
	if err := s.install(); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "", "CREATE DATABASE wakecall")
	return s
}

func (s *Server) install() (err error) {
	if s.dir, err = os.MkdirTemp("", "wkr"); err != nil { // short: a socket's path has at most 107 bytes
		return err
	}
	var asRoot []string
	if os.Geteuid() == 0 {
		asRoot = []string{"--user=root"}
	}
	install, err := findProgram("mariadb-install-db")
	if err != nil {
		return err
	}
	cmd := exec.Command(install, append([]string{"--no-defaults", "--datadir=" + s.dir + "/data",
		"--auth-root-authentication-method=normal", "--skip-test-db"}, asRoot...)...)
	cmd.Env = s.environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w\n%s", err, out)
	}
	s.args = append([]string{
		"--no-defaults", "--datadir=" + s.dir + "/data", "--socket=" + s.dir + "/s", "--pid-file=" + s.dir + "/pid",
		"--skip-networking", "--innodb-buffer-pool-size=16M", "--performance-schema=OFF",
		"--innodb-flush-log-at-trx-commit=2", "--max-connections=500",
	}, asRoot...)
	return s.Start()
}

// environment gives each server a directory of its own for temporary tables: a server that starts deletes those of
// others.
func (s *Server) environment() []string { return append(os.Environ(), "TMPDIR="+s.dir) }

// findProgram also searches directories that are not in every user's PATH.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w (apt-get install mariadb-server, or set WAKECALL_TEST_SHORT=1 to skip)", name, err)
	}
	return path, nil
}

// Start starts the server, also again, and waits until it answers.
func (s *Server) Start() error {
	binary, err := findProgram("mariadbd")
	if err != nil {
		return err
	}
	s.cmd = exec.Command(binary, s.args...)
	s.cmd.Env = s.environment()
	if err := s.cmd.Start(); err != nil {
		return err
	}
	db := s.connect("")
	defer db.Close()
	for deadline := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		if err = db.Ping(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

func (s *Server) stop() {
	if s.cmd != nil {
		s.Kill()
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// DSN returns the DSN of a database of the server.
func (s *Server) DSN(database string) string { return "mysql://root@unix(" + s.dir + "/s)/" + database }

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

func (s *Server) connect(database string) *sql.DB {
	db, err := sql.Open("mysql", strings.TrimPrefix(s.DSN(database), "mysql://"))
	if err != nil {
		panic(err) // the DSN was made by this package
	}
	return db
}
