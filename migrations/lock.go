package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/wakecall/wakecall/internal/disk"
)

const (
	// lockWait is how long one host waits while another migrates.
	lockWait = time.Minute
	// lockTry limits one attempt. It is shorter than any connection's read timeout, which would end a longer wait.
	lockTry = time.Second
	// lockPause is the time between two attempts on a lock that cannot be waited for with a limit.
	lockPause = 20 * time.Millisecond
)

// schemaLock keeps other hosts from migrating at the same time. It ends with release, or with the process.
type schemaLock interface {
	try(ctx context.Context) (got bool, err error)
	release()
}

func lock(ctx context.Context, db *sql.DB, d Dialect) (unlock func(), err error) {
	l, err := newLock(ctx, db, d)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, l); err != nil {
		l.release()
		return nil, err
	}
	return l.release, nil
}

func newLock(ctx context.Context, db *sql.DB, d Dialect) (schemaLock, error) {
	if d == SQLite {
		return newFileLock(ctx, db)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if d == Postgres {
		return &postgresLock{conn}, nil
	}
	return &advisoryLock{conn}, nil
}

func wait(ctx context.Context, l schemaLock) error {
	for deadline := time.Now().Add(lockWait); ; {
		if got, err := l.try(ctx); got || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another host or process has been migrating for %s; find out why, then start again",
				lockWait)
		}
	}
}

// advisoryLock is GET_LOCK of MySQL and MariaDB. It belongs to its connection.
type advisoryLock struct{ conn *sql.Conn }

func (l *advisoryLock) try(ctx context.Context) (bool, error) {
	var got sql.NullInt64 // NULL: the server ended the wait
	err := l.conn.QueryRowContext(ctx, "SELECT GET_LOCK('wakecall_migrate', ?)", int(lockTry.Seconds())).Scan(&got)
	return got.Int64 == 1, err
}

func (l *advisoryLock) release() {
	// On an error the lock ends with the connection.
	_, _ = l.conn.ExecContext(context.Background(), "DO RELEASE_LOCK('wakecall_migrate')")
	_ = l.conn.Close()
}

// postgresLock is an advisory lock of PostgreSQL. It belongs to its connection.
type postgresLock struct{ conn *sql.Conn }

// postgresKey identifies the lock within a database.
const postgresKey = "7738149130210504301"

func (l *postgresLock) try(ctx context.Context) (got bool, err error) {
	err = l.conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock("+postgresKey+")").Scan(&got)
	if got || err != nil {
		return got, err
	}
	return false, pauseForLock(ctx)
}

func (l *postgresLock) release() {
	// On an error the lock ends with the connection.
	_, _ = l.conn.ExecContext(context.Background(), "SELECT pg_advisory_unlock("+postgresKey+")")
	_ = l.conn.Close()
}

func pauseForLock(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(lockPause):
		return nil
	}
}

// fileLock is flock(2) on a file beside the database. Only SQLite may lock the database's own file: closing another
// descriptor of it would release the locks of every connection in this process.
type fileLock struct{ file *os.File }

// newFileLock opens the lock file. A database in memory has none, because no other process shares it.
func newFileLock(ctx context.Context, db *sql.DB) (schemaLock, error) {
	var path string
	row := db.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'")
	if err := row.Scan(&path); err != nil {
		return nil, err
	}
	if path == "" {
		return &fileLock{}, nil
	}
	f, err := os.OpenFile(path+"-migrate", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &fileLock{f}, nil
}

func (l *fileLock) try(ctx context.Context) (bool, error) {
	if l.file == nil {
		return true, nil
	}
	err := disk.Flock(l.file, syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return true, nil
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return false, fmt.Errorf("lock %s: %w", l.file.Name(), err)
	}
	return false, pauseForLock(ctx)
}

func (l *fileLock) release() {
	if l.file != nil {
		_ = l.file.Close() // releases the lock
	}
}
