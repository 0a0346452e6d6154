// Package pause waits between two tries.
package pause

import (
	"context"
	"time"
)

// For waits for d, and reports whether ctx lasted that long.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
