package store

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// StartWindow is how long after Reserve (or Extend) was sent a callback may be started without calling Extend first.
// Delete of a running job waits until it has passed, so no callback starts after its answer.
//
// A dispatcher to which Redis answers more slowly than that could start nothing. So it first stores a wider window, for
// WideFor, and then uses it for requests that it sends from now on: a deletion that ends one of their leases runs
// later, finds the key of that window, and waits as long.
const StartWindow = 250 * time.Millisecond

// WideFor is how long a wider window is stored.
const WideFor = time.Minute

// WidestStart is the widest start window.
const WidestStart = 4 * time.Second

// wideWindows each have a key of their own, which expires: the widest one counts, whoever stored it.
var wideWindows = [...]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, WidestStart}

func (b *Bucket) windowKey(window time.Duration) string {
	return b.Key("start:" + strconv.FormatInt(window.Milliseconds(), 10))
}

// WidenStart stores a start window that leaves time for a call after an answer that takes so long.
func (b *Bucket) WidenStart(ctx context.Context, took time.Duration) (window time.Duration, err error) {
	for _, window = range wideWindows {
		if window >= 2*took {
			break
		}
	}
	if err := b.shard.client.Set(ctx, b.windowKey(window), 1, WideFor).Err(); err != nil {
		return 0, fmt.Errorf("store the start window on shard %s: %w", b.shard.name, err)
	}
	return window, nil
}

// StartWindow returns for how long a callback may start under a lease that has ended by now.
func (b *Bucket) StartWindow(ctx context.Context) time.Duration {
	var keys []string
	for _, window := range wideWindows {
		keys = append(keys, b.windowKey(window))
	}
	stored, err := b.shard.client.MGet(ctx, keys...).Result()
	if err != nil {
		return WidestStart
	}
	widest := StartWindow
	for i, v := range stored {
		if v != nil {
			widest = wideWindows[i]
		}
	}
	return widest
}

// Outwait waits until no dispatcher starts a callback under a lease that has ended; 0: there was none.
func Outwait(ctx context.Context, window time.Duration) error {
	if window == 0 {
		return nil
	}
	t := time.NewTimer(window + 50*time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
