package store

import (
	"context"
	"errors"
	"maps"
	"sync"
)

// ErrShardRemoved is the cause with which a context ends when the shard or bucket is no longer in use.
var ErrShardRemoved = errors.New("the shard is no longer in use")

// RunEach calls watch, in a goroutine of its own, for each shard or bucket that list returns, so that one that hangs
// holds up itself alone. The context of a call ends with ctx, or with the cause ErrShardRemoved when list no longer
// returns its shard or bucket. RunEach reads the list again whenever it receives from changed (nil: never), and returns
// when ctx is done and all calls have returned.
func RunEach[S comparable](
	ctx context.Context, list func() []S, changed <-chan struct{}, watch func(context.Context, S),
) {
	var wg sync.WaitGroup
	defer wg.Wait()
	running := map[S]context.CancelCauseFunc{}
	for {
		removed := map[S]context.CancelCauseFunc{}
		maps.Copy(removed, running)
		for _, s := range list() {
			delete(removed, s)
			if running[s] == nil {
				watchCtx, cancel := context.WithCancelCause(ctx)
				running[s] = cancel
				wg.Go(func() { watch(watchCtx, s) })
			}
		}
		for s, cancel := range removed {
			cancel(ErrShardRemoved)
			delete(running, s)
		}
		select {
		case <-ctx.Done():
			for _, cancel := range running {
				cancel(nil)
			}
			return
		case <-changed:
		}
	}
}
