package queue

import (
	"errors"
	"testing"
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
			state        State
			shard, inner string
			err          error
		)
		for state = range cursorsOf {
			if shard, inner, err = decodeCursor(state, c); err == nil {
				break
			}
		}
		if err != nil {
			if !errors.Is(err, ErrCursor) {
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
	inner := map[string]State{
		"d1:5:a": Delayed, "f1:2": Delayed, "r2:99:é": Ready, "u1:5:7": Running, "x1:5:7": Dead, "o12:a": Finished,
	}
	for text, of := range inner {
		for state := range cursorsOf {
			_, _, err := decodeCursor(state, encodeCursor("redis-1", text))
			if (err == nil) != (state == of) || err != nil && !errors.Is(err, ErrCursor) {
				t.Errorf("%s in state %s: %v", text, state, err)
			}
		}
	}
}
