package registry

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/dbtest"
)

// BenchmarkReload reads all topics, as a process does whose snapshot is not one of the change log.
func BenchmarkReload(b *testing.B) {
	for _, topics := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint("sqlite/", topics), func(b *testing.B) { reload(b, dbtest.SQLite(b), topics) })
		b.Run(fmt.Sprint("mariadb/", topics), func(b *testing.B) {
			reload(b, dbtest.StartServer(b).DSN("wakecall"), topics)
		})
		b.Run(fmt.Sprint("postgres/", topics), func(b *testing.B) {
			reload(b, dbtest.StartPostgres(b).DSN("wakecall"), topics)
		})
	}
}

func reload(b *testing.B, dsn string, topics int) {
	ctx := context.Background()
	r, err := Open(Options{DSN: dsn, Migrate: MigrateOlder, SecretKey: testKey})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for first := 0; first < topics; first += 1000 {
		list := make([]Topic, 1000)
		for i := range list {
			list[i] = topic(fmt.Sprintf("shop.orders.close.%06d", first+i))
			list[i].Secrets = []string{oneSecret}
		}
		if _, err := r.PutTopics(ctx, "me", list); err != nil {
			b.Fatal(err)
		}
	}
	before := processor(b)
	for b.Loop() {
		last := *r.Snapshot()
		last.mark = "" // not in the change log
		r.snap.Store(&last)
		if err := r.load(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((processor(b)-before).Seconds()/float64(b.N), "cpu-s/op")
}

// processor returns the processor time of this process, which does not depend on what else the machine does.
func processor(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
