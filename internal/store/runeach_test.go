package store_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/wakecall/wakecall/internal/store"
)

func TestRunEachFollowsTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running, causes := map[string]int{}, map[string]error{}
		watch := func(ctx context.Context, s string) {
			mu.Lock()
			running[s]++
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			running[s]--
			causes[s] = context.Cause(ctx)
		}
		shards := []string{"a", "b"}
		changed := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			store.RunEach(ctx, func() []string { return shards }, changed, watch)
			close(ended)
		}()
		follow := func(now []string, want map[string]int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			shards = now
			mu.Unlock()
			changed <- struct{}{}
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !maps.Equal(running, want) {
				t.Errorf("with %v these run: %v, want %v", now, running, want)
			}
		}
		follow([]string{"a", "b"}, map[string]int{"a": 1, "b": 1})
		follow([]string{"b", "c"}, map[string]int{"a": 0, "b": 1, "c": 1})
		if !errors.Is(causes["a"], store.ErrShardRemoved) {
			t.Errorf("the watch of a removed shard ended with %v", causes["a"])
		}
		follow([]string{"a"}, map[string]int{"a": 1, "b": 0, "c": 0})
		cancel()
		<-ended
		if running["a"] != 0 || errors.Is(causes["a"], store.ErrShardRemoved) {
			t.Errorf("at the end %d watches are running; the last ended with %v", running["a"], causes["a"])
		}
	})
}
