// Package queuetest opens shards for tests.
package queuetest

import (
	"context"
	"embed"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

//go:embed lua
var files embed.FS

var adoptScript = store.Declare(files, store.Row{Name: "adopt", Guard: store.GuardNone})

// Adopt opens a shard without comparing it with any journal, and waits until the queue uses it.
func Adopt(ctx context.Context, s *store.Shard) error {
	if err := Open(ctx, s); err != nil {
		return err
	}
	return Used(ctx, s)
}

// Open is Adopt without the wait.
func Open(ctx context.Context, s *store.Shard) error {
	for _, b := range s.Buckets() {
		if _, err := b.Call(ctx, adoptScript, store.Format); err != nil {
			return err
		}
	}
	return nil
}

// Used waits until the queue uses a shard that was opened.
func Used(ctx context.Context, s *store.Shard) error {
	for !s.Up() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}
