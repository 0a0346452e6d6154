package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// restAfter is longer than the pause between garbage collections in a process that serves a few hundred jobs a second.
const restAfter = 15 * time.Second

// giveBack returns memory to the system when no garbage has been collected for a while: tuneGC lets the heap grow to
// several times the live memory, and Go keeps that memory even when the process is idle.
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
