package registry

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/wakecall/wakecall/test/dbtest"
)

// BenchmarkRegister registers topics one by one while three other processes follow:
// go test ./registry -run xxx -bench Register -benchtime 5000x
func BenchmarkRegister(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { register(b, dbtest.SQLite(b)) })
	b.Run("mariadb", func(b *testing.B) { register(b, dbtest.StartServer(b).DSN("wakecall")) })
	b.Run("postgres", func(b *testing.B) { register(b, dbtest.StartPostgres(b).DSN("wakecall")) })
}

func register(b *testing.B, dsn string) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var followers []*Registry
	defer func() {
		cancel()
		wg.Wait()
		for _, r := range followers {
			_ = r.Close()
		}
	}()
	writer, err := Open(Options{DSN: dsn, Migrate: MigrateOlder, Announce: func(context.Context, int64) {
		for _, r := range followers {
			r.Nudge()
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	for range 3 {
		r, err := Open(Options{DSN: dsn, SnapshotFile: filepath.Join(b.TempDir(), "snapshot.json")})
		if err != nil {
			b.Fatal(err)
		}
		followers = append(followers, r)
		wg.Go(func() { _ = r.Run(ctx) })
	}
	b.ResetTimer()
	for i := range b.N {
		if _, err := writer.PutTopic(ctx, "me", topic(fmt.Sprint("t", i))); err != nil {
			b.Fatal(err)
		}
	}
	for _, r := range followers {
		for r.Snapshot().Topics.Len() < b.N {
			r.Refresh(ctx)
		}
	}
}
