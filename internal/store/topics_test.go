package store_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// TestLimitsThatAShardDidNotTakeAreSetAgain although it stays connected: it was suspended, or refused writes.
func TestLimitsThatAShardDidNotTakeAreSetAgain(t *testing.T) {
	for name, trouble := range map[string]func(f *fixture, signal func(syscall.Signal)) (end func()){
		"suspended": func(_ *fixture, signal func(syscall.Signal)) func() {
			signal(syscall.SIGSTOP)
			return func() { signal(syscall.SIGCONT) }
		},
		"read-only": func(f *fixture, _ func(syscall.Signal)) func() {
			f.must("REPLICAOF", "127.0.0.1", "1")
			return func() { f.must("REPLICAOF", "NO", "ONE") }
		},
		"without replicas": func(f *fixture, _ func(syscall.Signal)) func() {
			f.must("CONFIG", "SET", "min-replicas-to-write", "1")
			return func() { f.must("CONFIG", "SET", "min-replicas-to-write", "0") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, server := startRedis(t)
			f := fixtureOn(t, url, store.Options{Timeout: time.Second})
			announced := make(chan struct{}, 10)
			q := open(store.Options{Timeout: time.Second, Announced: func() { announced <- struct{}{} }})
			t.Cleanup(func() { _ = q.Close() })
			if err := q.Shards.Set([]store.ShardConfig{{Name: f.s.Name(), URL: url, State: "active"}}); err != nil {
				t.Fatal(err)
			}
			<-announced // it has connected
			end := trouble(f, server.Signal)
			defer end()
			confs := []store.TopicConf{{Name: "t", TTR: 7 * time.Second, MaxAttempts: 3, MaxInFlight: 1, Pull: true}}
			if err := q.SetTopics(f.ctx, slices.Values(confs)); err == nil {
				t.Fatal("the limits were stored")
			}
			end()
			eventually(t, "they are stored", func() bool {
				v, err := f.s.Redis().HMGet(f.ctx, "wk:{0}:c:t", "ttr", "max", "flight", "pull").Result()
				return err == nil && fmt.Sprint(v) == "[7000 3 1 1]"
			})
		})
	}
}

// must sends a command to the fixture's server.
func (f *fixture) must(command ...any) {
	f.Helper()
	if err := f.s.Redis().Do(f.ctx, command...).Err(); err != nil {
		f.Fatal(err)
	}
}
