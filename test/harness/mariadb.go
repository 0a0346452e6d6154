package harness

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/freeport"
)

// The name of the database, and its user.
const (
	mariadbName     = "wakecall"
	mariadbUser     = "wakecall"
	mariadbPassword = "secret"
)

// MariaDB is a private server with an empty database for a registry.
type MariaDB struct {
	*daemon
	t    testing.TB
	dir  string
	port int
}

// StartMariaDB installs and starts a server in a directory of its own and waits until it answers.
func StartMariaDB(t testing.TB) *MariaDB {
	t.Helper()
	m := &MariaDB{t: t, dir: newDir(t, "mariadb"), port: freeport.TCP(t)}
	install := exec.Command(need(t, "mariadb-install-db", "mariadb-server"), "--no-defaults",
		"--datadir="+m.data(), "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
	install.Args = append(install.Args, asRoot()...)
	install.Env = m.environment()
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	m.Start()
	return m
}

// environment separates temporary files: servers that share a directory delete each other's.
func (m *MariaDB) environment() []string { return append(os.Environ(), "TMPDIR="+m.dir) }

func (m *MariaDB) data() string { return filepath.Join(m.dir, "data") }

// asRoot returns the arguments that MariaDB needs when root starts it.
func asRoot() []string {
	if os.Geteuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// Start starts the server, also again, on the same directory and port.
func (m *MariaDB) Start() {
	m.t.Helper()
	setup := filepath.Join(m.dir, "setup.sql")
	sql := fmt.Sprintf(`CREATE DATABASE IF NOT EXISTS %[1]s;
CREATE USER IF NOT EXISTS '%[2]s'@'%%' IDENTIFIED BY '%[3]s';
GRANT ALL ON %[1]s.* TO '%[2]s'@'%%';
`, mariadbName, mariadbUser, mariadbPassword) // one statement per line, as it requires
	if err := os.WriteFile(setup, []byte(sql), 0o644); err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.Command(need(m.t, "mariadbd", "mariadb-server"), "--no-defaults", "--datadir="+m.data(),
		"--socket="+filepath.Join(m.dir, "sock"), "--pid-file="+filepath.Join(m.dir, "pid"),
		"--bind-address=127.0.0.1", "--port="+strconv.Itoa(m.port), "--init-file="+setup,
		"--skip-log-bin", "--skip-name-resolve", "--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=2",
		"--performance-schema=OFF", "--max-connect-errors=1000000")
	cmd.Args = append(cmd.Args, asRoot()...)
	cmd.Env = m.environment()
	cmd.Dir = m.dir
	m.daemon = startDaemon(m.t, m.dir, filepath.Base(m.dir), cmd)
	Eventually(m.t, Patience, "MariaDB to answer", m.greets)
}

// greets returns nil when the server sends its greeting, which it does on connecting.
func (m *MariaDB) greets() error {
	if m.Exited() {
		return fmt.Errorf("it has ended: %s", m.Log(1000))
	}
	conn, err := net.DialTimeout("tcp", m.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// Addr returns the address on which the server listens.
func (m *MariaDB) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.port)) }

// DSN returns the database's address for registry.dsn.
func (m *MariaDB) DSN() string {
	return fmt.Sprintf("mysql://%s:%s@tcp(%s)/%s", mariadbUser, mariadbPassword, m.Addr(), mariadbName)
}

// Exec runs SQL in the registry's database.
func (m *MariaDB) Exec(sql string) string {
	m.t.Helper()
	cmd := exec.Command(need(m.t, "mariadb", "mariadb-client"), "--no-defaults", "--protocol=tcp",
		"--host=127.0.0.1", "--port="+strconv.Itoa(m.port), "--user="+mariadbUser, "--password="+mariadbPassword,
		"--batch", "--skip-column-names", mariadbName, "--execute="+sql)
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", sql, err, out)
	}
	return string(out)
}
