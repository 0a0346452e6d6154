package queue

import (
	"errors"
	"fmt"
	"testing"
	"time"
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

// TestPagesOfJobsOfOneInstant: jobs that were pushed one by one for the same instant are listed once each.
func TestPagesOfJobsOfOneInstant(t *testing.T) {
	f := newFixture(t)
	const jobs = 60
	for n := range jobs {
		f.push("t", fmt.Sprint(n), 0, func(p *Push) { p.DueAt, p.Priority = time.UnixMilli(1e12), Priority(n%3) })
	}
	for limit := 1; limit < jobs; limit += 4 {
		seen, cursor := map[string]int{}, ""
		for more := true; more; more = cursor != "" {
			list, next, err := f.q.List(f.ctx, "t", Ready, cursor, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range list {
				seen[j.ID]++
			}
			cursor = next
		}
		for n := range jobs {
			if id := fmt.Sprint(n); seen[id] != 1 {
				t.Errorf("with %d jobs a page, %s is listed %d times", limit, id, seen[id])
			}
		}
	}
}
