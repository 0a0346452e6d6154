package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Try runs one command on a server that may be broken, and returns its error.
func (r *Redis) Try(args ...any) error { return r.run(args...).Err() }

// Info returns a field of the server's INFO.
func (r *Redis) Info(section, field string) (string, error) {
	answer, err := r.run("INFO", section).Text()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(answer) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("INFO %s has no %s", section, field)
}

// Follow makes the server a replica of another and waits until it has all of its data.
func (r *Redis) Follow(ctx context.Context, other *Redis) error {
	if err := r.Try("REPLICAOF", "127.0.0.1", other.port); err != nil {
		return err
	}
	return withinContext(ctx, func() error {
		status, err := r.Info("replication", "master_link_status")
		if err == nil && status != "up" {
			err = fmt.Errorf("the link to its master is %s", status)
		}
		return err
	})
}

// Client returns a client of the server for the test itself.
func (r *Redis) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.Addr(), Password: r.opts.Password, MaxRetries: -1})
}

// AOFSize returns the size of the append-only file.
func (r *Redis) AOFSize() (size int64) {
	files, _ := filepath.Glob(filepath.Join(r.dir, "appendonlydir", "*")) // the pattern is valid
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			size += info.Size()
		}
	}
	return size
}

// DriverDSN returns the database's DSN for Go's driver.
func (m *MariaDB) DriverDSN() string { return strings.TrimPrefix(m.DSN(), "mysql://") }

func withinContext(ctx context.Context, cond func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := cond()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
