package store

import (
	"context"
	"errors"
	"time"
)

// awaitStep is how often a waiting call looks whether a bucket is open. The shard itself is probed every probeEvery.
const awaitStep = 10 * time.Millisecond

// IsComparing reports whether a call failed because its bucket is being compared.
func IsComparing(err error) bool {
	var un *UnavailableError
	return errors.As(err, &un) && un.Reason == ReasonComparing
}

// AwaitOpen waits until open returns true, for at most as long as patience. It reports whether a call should be
// repeated.
func AwaitOpen(ctx context.Context, patience time.Duration, open func() bool) bool {
	if patience <= 0 {
		return false
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	next := time.NewTicker(awaitStep)
	defer next.Stop()
	for !open() {
		select {
		case <-ctx.Done():
			return false
		case <-over.C:
			return false
		case <-next.C:
		}
	}
	return true
}

// awaitOpen waits after a script was refused because its bucket is being compared. Pushes wait only when no other
// shard accepts them, see pushAfterCompare, and takes only when there is no other shard. A probe asks for the state
// now.
func (b *Bucket) awaitOpen(ctx context.Context, script *Script) bool {
	alone := b.shard.peers.Takers() <= 1
	if script.Comparing == ComparingRefuses || script.Comparing == ComparingWaitsAlone && !alone {
		return false
	}
	return AwaitOpen(ctx, b.shard.patience, func() bool { return !b.down.Load() })
}
