package lmstfy

import (
	"testing"
	"time"
)

func TestAWindowBeginsWithItsFirstRequest(t *testing.T) {
	now := time.Unix(1000, 0)
	w := newWindows(func() time.Time { return now })
	key := windowKey{"default", "shop", "token", consume}
	giveBack, ok := w.take(key, 1, 10*time.Second)
	if !ok {
		t.Fatal("the first request is refused")
	}
	if _, ok := w.take(key, 1, 10*time.Second); ok {
		t.Error("a second request is accepted")
	}
	giveBack()
	if _, ok := w.take(key, 1, 10*time.Second); !ok {
		t.Error("a request is refused after another one was uncounted")
	}
	now = now.Add(10 * time.Second)
	if _, ok := w.take(key, 1, 10*time.Second); !ok {
		t.Error("the first request of the next window is refused")
	}
}

func TestAnIDHasItsTimeOfCreation(t *testing.T) {
	made := time.UnixMilli(1_700_000_000_123)
	id := newID(made, 7*time.Second)
	for _, id := range []string{id, withAttributes + id} {
		if ms := elapsedMS(id, made.Add(1500*time.Millisecond)); ms != 1500 {
			t.Errorf("%s is %d ms old, want 1500", id, ms)
		}
	}
	if ms := elapsedMS("order-42", made); ms != 0 {
		t.Errorf("a foreign id: %d ms", ms)
	}
}
