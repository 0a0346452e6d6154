package test

import (
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	timers "github.com/wakecall/wakecall/client/outbox"
	"github.com/wakecall/wakecall/relay/ddl"
	"github.com/wakecall/wakecall/test/dbtest"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

// shopDB is the database of a shop: its orders, and the outbox.
type shopDB struct {
	*sql.DB
	kind   timers.Dialect
	dsn    string   // for the relay; the services use the same
	env    []string // for programs that connect by themselves
	server interface {
		Kill9()
		Start()
	} // nil for SQLite
	postgres *dbtest.Postgres
	services *harness.Proxy // between the services and the server
	relays   *harness.Proxy // between the relays and the server
}

var outboxDialects = []timers.Dialect{timers.SQLite, timers.MySQL, timers.PostgreSQL}

// startShopDB starts a database of a kind. Servers are behind two proxies, one for the services and one for the relays.
func startShopDB(t *testing.T, kind timers.Dialect) *shopDB {
	t.Helper()
	db := &shopDB{kind: kind}
	switch kind {
	case timers.SQLite:
		file := filepath.Join(process.Dir(t, "shop"), "shop.db")
		db.dsn = "sqlite://" + file
		db.env = []string{"DB_NAME=" + file}
		db.open(t, "sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=journal_mode(wal)")
	case timers.MySQL:
		server := dbtest.StartServer(t)
		db.server = server
		db.behind(t, server.Addr(), server.DSN("wakecall"), "secret")
		dsn := strings.TrimPrefix(server.DSN("wakecall"), "mysql://")
		db.open(t, "mysql", strings.Replace(dsn, server.Addr(), db.services.Addr(), 1))
	case timers.PostgreSQL:
		db.postgres = dbtest.StartPostgres(t)
		db.server = db.postgres
		db.behind(t, db.postgres.Addr(), db.postgres.DSN("wakecall"), "")
		db.open(t, "pgx", strings.Replace(db.postgres.DSN("wakecall"), db.postgres.Addr(), db.services.Addr(), 1))
	}
	db.env = append(db.env, "DB_KIND="+string(kind))
	db.run(t, "CREATE TABLE orders (id INTEGER PRIMARY KEY, state VARCHAR(20) NOT NULL, "+
		"version INTEGER NOT NULL DEFAULT 0)")
	script, err := ddl.Of(string(kind), ddl.Table)
	must(t, err)
	db.run(t, ddl.Statements(script)...)
	return db
}

func (db *shopDB) behind(t *testing.T, addr, dsn, password string) {
	t.Helper()
	db.services, db.relays = harness.StartProxy(t, addr), harness.StartProxy(t, addr)
	db.dsn = strings.Replace(dsn, addr, db.relays.Addr(), 1)
	host, port, err := net.SplitHostPort(db.services.Addr())
	must(t, err)
	db.env = []string{
		"DB_HOST=" + host, "DB_PORT=" + port, "DB_NAME=wakecall", "DB_USER=wakecall", "DB_PASSWORD=" + password,
	}
}

func (db *shopDB) open(t *testing.T, driver, dsn string) {
	t.Helper()
	opened, err := sql.Open(driver, dsn)
	must(t, err)
	opened.SetMaxOpenConns(16)
	t.Cleanup(func() { _ = opened.Close() })
	db.DB = opened
}

func (db *shopDB) run(t *testing.T, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// mark returns the nth placeholder of a statement.
func (db *shopDB) mark(n int) string {
	if db.kind == timers.PostgreSQL {
		return fmt.Sprint("$", n)
	}
	return "?"
}

// rows counts the rows of the outbox.
func (db *shopDB) rows() (n int, err error) {
	err = db.QueryRow("SELECT COUNT(*) FROM wakecall_outbox").Scan(&n)
	return n, err
}

// waitEmpty waits until the relays have carried every row.
func (db *shopDB) waitEmpty(t *testing.T) {
	t.Helper()
	harness.Eventually(t, soon, "the outbox to be empty", func() error {
		n, err := db.rows()
		if err != nil || n == 0 {
			return err
		}
		var seq, attempts int64
		var state, key, claimedBy string
		var lastError sql.NullString
		err = db.QueryRow("SELECT seq, state, COALESCE(ordered_by, ''), claimed_by, attempts, last_error "+
			"FROM wakecall_outbox ORDER BY seq LIMIT 1").Scan(&seq, &state, &key, &claimedBy, &attempts, &lastError)
		return fmt.Errorf("it has %d rows; row %d of %q is %s by %q, %d attempts, error %q (%v)", n, seq, key, state,
			claimedBy, attempts, lastError.String, err)
	})
}

// relay is a `wakecall relay` that may be killed and started again.
type relay struct {
	*process.Process
	t     *testing.T
	start func() *process.Process
}

// relayCommand returns wakecall relay with a database and a token, without anything else of the installation.
func relayCommand(t *testing.T, db *shopDB, server, token string, args ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	args = append([]string{"relay", "--server", server, "--token-file", file}, args...)
	cmd := exec.Command(harness.Binary(t), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "WAKECALL_RELAY_DSN=" + db.dsn}
	return cmd
}

// startRelay starts a relay with a token for topics.
func startRelay(t *testing.T, db *shopDB, server, token string, args ...string) *relay {
	t.Helper()
	r := &relay{t: t}
	dir := process.Dir(t, "relay")
	r.start = func() *process.Process {
		return process.Start(t, dir, filepath.Base(dir), relayCommand(t, db, server, token, args...))
	}
	r.Process = r.start()
	return r
}

// again kills the relay and starts it again.
func (r *relay) again() {
	r.t.Helper()
	if r.Exited() {
		r.t.Fatalf("the relay has ended: %s", r.Log(2000))
	}
	r.Kill9()
	r.Process = r.start()
}

// pushToken makes a token that may push to topics of a pattern, and waits until the servers know it.
func (i *installation) pushToken(t *testing.T, patterns ...string) string {
	t.Helper()
	var token struct{ Token string }
	must(t, i.MustDo(t, http.StatusCreated, http.MethodPost, "/v1/tokens", M{
		"name": "relay", "rights": []string{"push"}, "topics": patterns,
	}).JSON(&token))
	api := harness.NewAPI(i.Base, token.Token)
	harness.Eventually(t, soon, "the token to be known", func() error {
		return harness.Equal("status", api.Do(ctx, http.MethodDelete, "/v1/groups/none", nil).Status, http.StatusOK)
	})
	return token.Token
}
