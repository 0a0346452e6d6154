package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// restAfter is longer than a process that serves a few hundred jobs a second goes without a garbage collection.
const restAfter = 15 * time.Second

// giveBack returns memory to the system whenever there was no garbage collection for a while. tuneGC lets the heap grow
// to several times what is alive, and Go keeps as much also when the process has nothing to do.
func giveBack(after time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(after)
		defer tick.Stop()
		cycles, last, given := []metrics.Sample{{Name: "/gc/cycles/automatic:gc-cycles"}}, uint64(0), true
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			metrics.Read(cycles)
			switch n := cycles[0].Value.Uint64(); {
			case n != last:
				last, given = n, false
			case !given:
				debug.FreeOSMemory()
				given = true
			}
		}
	}
}
