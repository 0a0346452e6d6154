package queue

import (
	"errors"
	"testing"

	"github.com/wakecall/wakecall/internal/store"
)

// FuzzCursor: a client may send any cursor; only cursors that List returned reach Redis, unchanged.
func FuzzCursor(f *testing.F) {
	for _, inner := range []string{"", "d:123.5:7", "x:-inf:0", "f:1:2:3", "r:2:99"} {
		f.Add(encodeCursor("redis-1", inner))
	}
	f.Add("")
	f.Add("!")
	f.Add(encodeCursor("redis-1", "d:1:2\nr:0:1"))
	f.Fuzz(func(t *testing.T, c string) {
		var (
			state        store.State
			shard, inner string
			err          error
		)
		for state = range store.CursorsOf {
			if shard, inner, err = decodeCursor(state, c); err == nil {
				break
			}
		}
		if err != nil {
			if !errors.Is(err, store.ErrCursor) {
				t.Fatalf("%q: %v is not ErrCursor", c, err)
			}
			return
		}
		if c == "" {
			return
		}
		if again, same, err := decodeCursor(state, encodeCursor(shard, inner)); err != nil || again != shard ||
			same != inner {
			t.Fatalf("%q is %q, %q; encoded and decoded again %q, %q, %v", c, shard, inner, again, same, err)
		}
	})
}

// TestACursorBelongsToOneState: the script would return a page of other jobs without an error.
func TestACursorBelongsToOneState(t *testing.T) {
	inner := map[string]store.State{
		"d1:5:a": store.Delayed, "f1:2": store.Delayed, "r2:99:é": store.Ready, "u1:5:7": store.Running, "x1:5:7": store.Dead, "o12:a": store.Finished,
	}
	for text, of := range inner {
		for state := range store.CursorsOf {
			_, _, err := decodeCursor(state, encodeCursor("redis-1", text))
			if (err == nil) != (state == of) || err != nil && !errors.Is(err, store.ErrCursor) {
				t.Errorf("%s in state %s: %v", text, state, err)
			}
		}
	}
}
