package queue

import (
	"testing"
	"time"
)

// TestAHostIsWaitedForWhateverItsClockSays: one that lately was at work must have compared its journal before jobs
// are called.
func TestAHostIsWaitedForWhateverItsClockSays(t *testing.T) {
	now := time.Now()
	done := Check{Host: "a", Server: "new", Until: now, At: now}
	for _, clock := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute} {
		other := Check{Host: "b", Server: "old", Until: now.Add(clock), At: now.Add(-time.Second)}
		if compared("new", []Check{done, other}) {
			t.Errorf("a host whose clock is off by %s is not waited for", clock)
		}
		other.At = now.Add(-2 * lately)
		if !compared("new", []Check{done, other}) {
			t.Errorf("a host that is gone, whose clock was off by %s, is waited for", clock)
		}
	}
}

// TestAHostsWordIsForOneServer: it says that its journal agrees with what that server holds; another one may have
// forgotten something since.
func TestAHostsWordIsForOneServer(t *testing.T) {
	f := newFixture(t)
	server, _, err := f.s.Checks(f.ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := Check{Host: "a", Server: server.RunID, Until: time.UnixMilli(1000)}
	if ok, err := f.s.NoteCheck(f.ctx, Check{}, first); !ok || err != nil {
		t.Fatal(ok, err)
	}
	other := Check{Host: "a", Server: "0123456789abcdef", Until: time.UnixMilli(2000)}
	if ok, err := f.s.NoteCheck(f.ctx, first, other); ok || err != nil {
		t.Errorf("the word for another server is taken: %v, %v", ok, err)
	}
	next := Check{Host: "a", Server: server.RunID, Until: time.UnixMilli(3000)}
	if ok, err := f.s.NoteCheck(f.ctx, first, next); !ok || err != nil {
		t.Errorf("the next word is not taken: %v, %v", ok, err)
	}
}
