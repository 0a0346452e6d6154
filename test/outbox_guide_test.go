package test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/client"
	timers "github.com/wakecall/wakecall/client/outbox"
	"github.com/wakecall/wakecall/test/harness"
	"github.com/wakecall/wakecall/test/harness/process"
)

const outboxCode = "docs/guides/outbox-code.md"

// outboxProgram is a program of docs/guides/outbox-code.md.
type outboxProgram struct {
	heading string // above its code
	file    string // its name
	driver  string // testdata/outbox/driver calls one of its functions
	check   []string
	build   []string // of the program and its driver
	run     []string // before the function and the order
	// drivers has, for each database, a command that succeeds where its driver is installed.
	drivers map[timers.Dialect][]string
}

func phpHas(driver string, more ...string) []string {
	code := fmt.Sprintf("exit(in_array('%s', PDO::getAvailableDrivers()) ? 0 : 1);", driver)
	return []string{"php", "-r", strings.Join(append(more, code), " ")}
}

func pythonHas(modules string) []string { return []string{"python3", "-c", "import " + modules} }

// jars are where Debian's packages have the drivers and Spring; the environment may add others.
var jars = ".:/usr/share/java/*:" + os.Getenv("CLASSPATH")

func javaHas(class string) []string { return []string{"javap", "-cp", jars, class} }

func goProgram(heading, driver string, on timers.Dialect) outboxProgram {
	build := []string{"go", "build", "-o", "program", "orders.go", driver}
	return outboxProgram{
		heading: heading, file: "orders.go", driver: driver, build: build, run: []string{"./program"},
		drivers: map[timers.Dialect][]string{on: {"true"}},
	}
}

var outboxPrograms = []outboxProgram{
	{
		heading: "### PDO", file: "orders.php", driver: "pdo.php",
		check: []string{"php", "-l", "orders.php"}, run: []string{"php", "pdo.php"},
		drivers: map[timers.Dialect][]string{
			timers.SQLite: phpHas("sqlite"), timers.MySQL: phpHas("mysql"), timers.PostgreSQL: phpHas("pgsql"),
		},
	},
	{
		heading: "### Laravel", file: "orders.php", driver: "laravel.php",
		check: []string{"php", "-l", "orders.php"}, run: []string{"php", "laravel.php"},
		drivers: map[timers.Dialect][]string{
			timers.SQLite:     phpHas("sqlite", "require 'Illuminate/Database/autoload.php';"),
			timers.MySQL:      phpHas("mysql", "require 'Illuminate/Database/autoload.php';"),
			timers.PostgreSQL: phpHas("pgsql", "require 'Illuminate/Database/autoload.php';"),
		},
	},
	{
		heading: "### psycopg", file: "orders.py", driver: "psycopg_driver.py",
		check: []string{"python3", "-m", "py_compile", "orders.py"}, run: []string{"python3", "psycopg_driver.py"},
		drivers: map[timers.Dialect][]string{timers.PostgreSQL: pythonHas("psycopg")},
	},
	{
		heading: "### Django", file: "orders.py", driver: "django_driver.py",
		check: []string{"python3", "-m", "py_compile", "orders.py"}, run: []string{"python3", "django_driver.py"},
		drivers: map[timers.Dialect][]string{timers.SQLite: pythonHas("django")},
	},
	{
		heading: "### SQLAlchemy", file: "orders.py", driver: "sqlalchemy_driver.py",
		check: []string{"python3", "-m", "py_compile", "orders.py"}, run: []string{"python3", "sqlalchemy_driver.py"},
		drivers: map[timers.Dialect][]string{
			timers.SQLite: pythonHas("sqlalchemy"), timers.MySQL: pythonHas("sqlalchemy, pymysql"),
		},
	},
	{
		heading: "### sqlite3", file: "orders.py", driver: "sqlite3_driver.py",
		check: []string{"python3", "-m", "py_compile", "orders.py"}, run: []string{"python3", "sqlite3_driver.py"},
		drivers: map[timers.Dialect][]string{timers.SQLite: pythonHas("sqlite3")},
	},
	{
		heading: "## Node.js", file: "orders.mjs", driver: "pg.mjs",
		check: []string{"node", "--check", "orders.mjs"}, run: []string{"node", "pg.mjs"},
		drivers: map[timers.Dialect][]string{timers.PostgreSQL: {"node", "-e", "require('pg')"}},
	},
	{
		heading: "### JDBC", file: "Orders.java", driver: "JdbcDriver.java",
		check: []string{"javac", "--release", "11", "Orders.java"},
		build: []string{"javac", "JdbcDriver.java"}, run: []string{"java", "-Xshare:auto", "-cp", jars, "JdbcDriver"},
		drivers: map[timers.Dialect][]string{
			timers.MySQL: javaHas("org.mariadb.jdbc.Driver"), timers.PostgreSQL: javaHas("org.postgresql.Driver"),
		},
	},
	{
		heading: "### Spring", file: "SpringOrders.java", driver: "SpringDriver.java",
		build: []string{"javac", "-cp", jars, "SpringOrders.java", "SpringDriver.java"},
		run:   []string{"java", "-Xshare:auto", "-cp", jars, "SpringDriver"},
		drivers: map[timers.Dialect][]string{
			timers.PostgreSQL: javaHas("org.springframework.jdbc.core.JdbcTemplate"),
		},
	},
	goProgram("### database/sql", "sqldriver.go", timers.PostgreSQL),
	goProgram("### gorm", "gormdriver.go", timers.MySQL),
}

// TestOutboxPrograms: the programs that the page shows push, change and cancel a job in the transaction of an order.
// What has no driver here is compiled.
func TestOutboxPrograms(t *testing.T) {
	t.Parallel()
	i := start(t, unhurried())
	i.MustPutTopic(t, "order.close", M{"callback_url": i.endpoint.URL("/")})
	token := i.pushToken(t, "order.*")
	page, err := os.ReadFile(filepath.Join("..", outboxCode))
	must(t, err)
	databases := map[timers.Dialect]func() *shopDB{}
	for _, kind := range outboxDialects {
		databases[kind] = sync.OnceValue(func() *shopDB {
			db := startShopDB(t, kind)
			startRelay(t, db, i.Base, token)
			return db
		})
	}
	for n, p := range outboxPrograms {
		dir := process.Dir(t, "outbox")
		code := codeBelow(t, string(page), p.heading)
		driver, err := os.ReadFile(filepath.Join("testdata/outbox", p.driver))
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, p.file), []byte(code), 0o600),
			os.WriteFile(filepath.Join(dir, p.driver), driver, 0o600))
		must(t, err)
		t.Run(strings.TrimLeft(p.heading, "# "), func(t *testing.T) {
			if p.check != nil {
				p.runs(t, dir, nil, p.check...)
			}
			ran := 0
			for k, kind := range outboxDialects {
				if !p.hasDriver(kind) {
					continue
				}
				if ran++; ran == 1 && p.build != nil {
					p.runs(t, dir, nil, p.build...)
				}
				p.carried(t, i, databases[kind](), dir, 10*n+k)
			}
			if ran == 0 {
				t.Skipf("SKIPPED: no driver of a database for %s is installed", p.heading)
			}
		})
	}
}

// codeBelow returns the first code block below a heading.
func codeBelow(t *testing.T, page, heading string) string {
	t.Helper()
	_, section, found := strings.Cut(page, "\n"+heading+"\n")
	_, section, fenced := strings.Cut(section, "\n```")
	_, section, named := strings.Cut(section, "\n")
	code, _, closed := strings.Cut(section, "\n```\n")
	if !found || !fenced || !named || !closed {
		t.Fatalf("%s has no code below %s", outboxCode, heading)
	}
	return code + "\n"
}

func (p outboxProgram) hasDriver(kind timers.Dialect) bool {
	args := p.drivers[kind]
	return args != nil && exec.Command(args[0], args[1:]...).Run() == nil
}

func (p outboxProgram) runs(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	cmd := exec.CommandContext(limit, args[0], args[1:]...)
	if args[0] == "go" { // from here, so that the imports are resolved in this module
		for n := range cmd.Args[3:] {
			cmd.Args[n+3] = filepath.Join(dir, cmd.Args[n+3])
		}
	} else {
		cmd.Dir = dir
	}
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

// carried calls the functions of a program, and sees in Wakecall what they did.
func (p outboxProgram) carried(t *testing.T, i *installation, db *shopDB, dir string, order int) {
	t.Helper()
	call := func(function string) time.Time {
		p.runs(t, dir, db.env, append(p.run, function, fmt.Sprint(order))...)
		return time.Now()
	}
	id := fmt.Sprint("order-", order)
	path := harness.JobPath("order.close", id)
	dueIn := func(began, ended time.Time, delay time.Duration) {
		t.Helper()
		harness.Eventually(t, soon, fmt.Sprint(id, " to be due in ", delay), func() error {
			var job harness.Job
			answer := i.Do(ctx, http.MethodGet, path, nil)
			if err := answer.JSON(&job); err != nil || answer.Status != http.StatusOK {
				return fmt.Errorf("answered %s", answer)
			}
			if job.DueAt.Before(began.Add(delay-time.Second)) || job.DueAt.After(ended.Add(delay)) {
				return fmt.Errorf("due at %s, %s after the call", job.DueAt, job.DueAt.Sub(began))
			}
			body := strings.ReplaceAll(string(job.Body), " ", "")
			if job.State != client.Delayed || job.Group != id || body != fmt.Sprintf(`{"order":%d}`, order) {
				t.Errorf("the job is %s", answer)
			}
			return nil
		})
	}
	began := time.Now()
	dueIn(began, call("place"), 30*time.Minute)
	began = time.Now()
	dueIn(began, call("extend"), 40*time.Minute)
	call("pay")
	harness.Eventually(t, soon, id+" to be cancelled", func() error {
		return harness.Equal("status", i.Do(ctx, http.MethodGet, path, nil).Status, http.StatusNotFound)
	})
	isClosed(t, i.API, "order.close", id)
	var state string
	must(t, db.QueryRow(fmt.Sprint("SELECT state FROM orders WHERE id = ", order)).Scan(&state))
	must(t, harness.Equal("state of the order", state, "paid"))
}
