package quota

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/wakecall/wakecall/internal/registry"
)

// counts is a queue that counts as Redis does, but without the time.
type counts struct {
	mu    sync.Mutex
	left  map[uint64]int64
	asked int
	jobs  map[uint64]int64
	away  bool
}

func (c *counts) Draw(
	_ context.Context, token uint64, _, n int64,
) (drawn, left int64, again time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.away {
		return 0, 0, 0, errors.New("away")
	}
	drawn = min(n, c.left[token])
	c.left[token] -= drawn
	return drawn, c.left[token], 50 * time.Millisecond, nil
}

func (c *counts) Waiting(context.Context) map[uint64]int64 {
	sum := map[uint64]int64{}
	maps.Copy(sum, c.jobs)
	return sum
}

func token(id uint64, rate, jobs int64) *registry.Token {
	return &registry.Token{ID: id, Name: "t", Quotas: &registry.Quotas{PushesPerSecond: rate, WaitingJobs: jobs}}
}

func TestPushesBeyondTheRateAreRefused(t *testing.T) {
	q := &counts{left: map[uint64]int64{1: 50, 2: 20}}
	m := New(q, slog.New(slog.DiscardHandler))
	n, over := m.Admit(t.Context(), []*registry.Token{token(1, 50, 0)}, 30)
	if n != 30 || over != nil {
		t.Fatalf("%d, %v", n, over)
	}
	// Of two quotas the smaller one counts, and what it refuses is not taken from the other.
	n, over = m.Admit(t.Context(), []*registry.Token{token(1, 50, 0), token(2, 20, 0)}, 20)
	if n != 20 || over != nil {
		t.Fatalf("%d, %v", n, over)
	}
	n, over = m.Admit(t.Context(), []*registry.Token{token(1, 50, 0)}, 3)
	if n != 0 || over == nil || over.Quota != "pushes_per_second" || over.Limit != 50 || over.After <= 0 {
		t.Fatalf("%d, %+v", n, over)
	}
	asked := q.asked
	for range 100 {
		_, _ = m.Admit(t.Context(), []*registry.Token{token(1, 50, 0)}, 1)
	}
	if q.asked > asked+2 {
		t.Errorf("it asked %d times while nothing was left", q.asked-asked)
	}
}

func TestNothingIsLimitedWithoutACount(t *testing.T) {
	q := &counts{away: true}
	m := New(q, slog.New(slog.DiscardHandler))
	for range 100 {
		if n, over := m.Admit(t.Context(), []*registry.Token{token(1, 1, 0)}, 10); n != 10 || over != nil {
			t.Fatalf("%d, %v", n, over)
		}
	}
	if q.asked > 5 {
		t.Errorf("it asked %d times", q.asked)
	}
}

func TestWaitingJobsAreLimited(t *testing.T) {
	q := &counts{jobs: map[uint64]int64{1: 95}}
	m := New(q, slog.New(slog.DiscardHandler))
	m.sum(t.Context())
	tokens := []*registry.Token{token(1, 0, 100)}
	if n, over := m.Admit(t.Context(), tokens, 3); n != 3 || over != nil {
		t.Fatalf("%d, %v", n, over)
	}
	n, over := m.Admit(t.Context(), tokens, 5)
	if n != 2 || over == nil || over.Quota != "waiting_jobs" || over.After != time.Second {
		t.Fatalf("%d, %+v", n, over)
	}
	q.jobs[1] = 40
	m.sum(t.Context())
	if n, _ := m.Admit(t.Context(), tokens, 100); n != 60 {
		t.Errorf("%d after the next sum", n)
	}
}
