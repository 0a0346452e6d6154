package queue

import (
	"errors"
	"testing"
)

// FuzzCursor: a cursor is whatever a client sends; only those that List gave out go on to Redis, and they say what
// they said.
func FuzzCursor(f *testing.F) {
	for _, inner := range []string{"", "d:123.5:7", "x:-inf:0", "f:1:2:3", "r:2:99"} {
		f.Add(encodeCursor("redis-1", inner))
	}
	f.Add("")
	f.Add("!")
	f.Add(encodeCursor("redis-1", "d:1:2\nr:0:1"))
	f.Fuzz(func(t *testing.T, c string) {
		shard, inner, err := decodeCursor(c)
		if err != nil {
			if !errors.Is(err, ErrCursor) {
				t.Fatalf("%q: %v is not ErrCursor", c, err)
			}
			return
		}
		if c == "" {
			return
		}
		if again, same, err := decodeCursor(encodeCursor(shard, inner)); err != nil || again != shard || same != inner {
			t.Fatalf("%q is %q, %q; written and read again %q, %q, %v", c, shard, inner, again, same, err)
		}
	})
}
