package app

import (
	"context"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/test/wait"
)

// TestMemoryIsGivenBackAtRest: an idle process returns the memory of its garbage.
func TestMemoryIsGivenBackAtRest(t *testing.T) {
	var garbage [][]byte
	for range 64 {
		garbage = append(garbage, make([]byte, 1<<20))
	}
	kept := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	keeps := func() uint64 {
		metrics.Read(kept)
		return kept[0].Value.Uint64() + kept[1].Value.Uint64()
	}
	if n := keeps(); n < 64<<20 {
		t.Fatalf("%d bytes of %d MiB", n, len(garbage))
	}
	garbage = nil //nolint:ineffassign // the collector may free it from here on
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = giveBack(50 * time.Millisecond)(ctx) })
	wait.For(t, "the memory is given back", func() bool { return keeps() < 32<<20 })
	stop()
	running.Wait()
}
