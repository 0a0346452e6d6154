// Package quota admits pushes within the quotas of tokens, which are counted over all hosts.
//
// A Meter draws a token's pushes per second from Redis in slices of 100 ms, each for one process, so most pushes ask
// nobody. Jobs that wait are counted where they are, in each bucket, and summed every second: pushes are compared with
// the last sum and what this process has admitted since. Where nothing can be counted, nothing is limited.
package quota

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/registry"
)

// Queue counts what tokens have pushed.
type Queue interface {
	Draw(ctx context.Context, token uint64, rate, n int64) (drawn, left int64, again time.Duration, err error)
	Waiting(ctx context.Context) map[uint64]int64
}

const (
	slice     = 100 * time.Millisecond
	perSecond = int64(time.Second / slice)
	drawLimit = 200 * time.Millisecond // how long a push waits for the count
	sumEvery  = time.Second
)

// Meter counts the pushes of one process.
type Meter struct {
	queue Queue
	log   *slog.Logger

	mu      sync.Mutex
	drawn   map[uint64]*drawn
	waiting map[uint64]int64 // at the last sum, and what was admitted since
}

// drawn is what a process has of a token's rate in a slice.
type drawn struct {
	mu        sync.Mutex
	until     time.Time // the slice's end
	left      int64
	used      int64     // pushes of this slice
	last      int64     // and of the one before
	dry, away time.Time // until then nothing is left to draw, or nothing can be counted
}

// New returns a Meter.
func New(q Queue, log *slog.Logger) *Meter {
	return &Meter{queue: q, log: log, drawn: map[uint64]*drawn{}, waiting: map[uint64]int64{}}
}

// ExceededError says which quota of a token a push exceeds.
type ExceededError struct {
	Token string // its name
	Quota string // pushes_per_second or waiting_jobs
	Limit int64
	After time.Duration // when to try again
}

func (e *ExceededError) Error() string {
	if e.Quota == "waiting_jobs" {
		return fmt.Sprintf("token %s has %d waiting jobs, as many as its quota waiting_jobs allows", e.Token, e.Limit)
	}
	return fmt.Sprintf("token %s may push %d jobs a second, its quota pushes_per_second", e.Token, e.Limit)
}

// Admit admits up to n pushes of the tokens whose quotas count for them. It returns how many, and which quota refuses
// the others.
func (m *Meter) Admit(ctx context.Context, tokens []*registry.Token, n int) (int, *ExceededError) {
	admitted, over := int64(n), (*ExceededError)(nil)
	for _, t := range tokens {
		if room, e := m.room(t, admitted); e != nil {
			admitted, over = room, e
		}
	}
	wanted := admitted
	for i, t := range tokens {
		got, e := m.draw(ctx, t, admitted)
		if e == nil {
			continue
		}
		for _, before := range tokens[:i] {
			m.giveBack(before, admitted-got)
		}
		admitted, over = got, e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range tokens {
		if t.Quotas.WaitingJobs > 0 {
			m.waiting[t.ID] -= wanted - admitted
		}
	}
	return int(admitted), over
}

// room takes room for up to n waiting jobs.
func (m *Meter) room(t *registry.Token, n int64) (int64, *ExceededError) {
	most := t.Quotas.WaitingJobs
	if most == 0 {
		return n, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	room := min(n, max(0, most-m.waiting[t.ID]))
	m.waiting[t.ID] += room
	if room == n {
		return n, nil
	}
	return room, &ExceededError{Token: t.Name, Quota: "waiting_jobs", Limit: most, After: sumEvery}
}

func (m *Meter) of(token uint64) *drawn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.drawn[token] == nil {
		m.drawn[token] = &drawn{}
	}
	return m.drawn[token]
}

// draw takes up to n pushes of a token's rate.
func (m *Meter) draw(ctx context.Context, t *registry.Token, n int64) (int64, *ExceededError) {
	rate := t.Quotas.PushesPerSecond
	if rate == 0 || n == 0 {
		return n, nil
	}
	d := m.of(t.ID)
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if now.After(d.until) {
		d.until, d.left, d.last, d.used = now.Add(slice), 0, d.used, 0
	}
	if now.Before(d.away) {
		return n, nil
	}
	d.used += n
	if d.left < n && !now.Before(d.dry) && !m.refill(ctx, d, t, n-d.left) {
		return n, nil
	}
	got := min(n, d.left)
	d.left -= got
	if got == n {
		return n, nil
	}
	return got, &ExceededError{Token: t.Name, Quota: "pushes_per_second", Limit: rate, After: time.Until(d.dry)}
}

// refill draws what is needed, or as much as the slice before had, so that a process with few pushes leaves the rate to
// others. It reports whether anything can be counted.
func (m *Meter) refill(ctx context.Context, d *drawn, t *registry.Token, needed int64) bool {
	rate := t.Quotas.PushesPerSecond
	ctx, cancel := context.WithTimeout(ctx, drawLimit)
	defer cancel()
	wanted := max(needed, min(d.last, rate/perSecond))
	got, _, again, err := m.queue.Draw(ctx, t.ID, rate, wanted)
	if err != nil {
		m.log.Debug("count pushes of token", "token", t.ID, "error", err)
		d.away = time.Now().Add(sumEvery)
		return false
	}
	d.left += got
	if got < needed {
		d.dry = time.Now().Add(min(max(again, time.Millisecond), slice))
	}
	return true
}

// giveBack returns pushes that another token's quota refuses.
func (m *Meter) giveBack(t *registry.Token, n int64) {
	if t.Quotas.PushesPerSecond == 0 {
		return
	}
	d := m.of(t.ID)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left += n
}

// Run sums the waiting jobs every second while tokens have a quota of them, until ctx is done.
func (m *Meter) Run(ctx context.Context, snapshot func() *registry.Snapshot) {
	for {
		if needsSum(snapshot().Limited()) {
			m.sum(ctx)
		}
		if !pause.For(ctx, sumEvery) {
			return
		}
	}
}

func needsSum(tokens []*registry.Token) bool {
	return slices.ContainsFunc(tokens, func(t *registry.Token) bool { return t.Quotas.WaitingJobs > 0 })
}

// sum reads the number of waiting jobs. What is admitted while it reads counts until the next sum.
func (m *Meter) sum(ctx context.Context) {
	m.mu.Lock()
	before := maps.Clone(m.waiting)
	m.mu.Unlock()
	now := m.queue.Waiting(ctx)
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for token, n := range m.waiting {
		now[token] += n - before[token]
	}
	m.waiting = now
}

// Used returns what tokens use of their quotas now, by their IDs: the pushes that the last second took, and the jobs
// that wait. What cannot be counted is left out.
func Used(ctx context.Context, q Queue, tokens []*registry.Token) map[uint64]*registry.Quotas {
	used := map[uint64]*registry.Quotas{}
	var waiting map[uint64]int64
	if needsSum(tokens) {
		waiting = q.Waiting(ctx)
	}
	for _, t := range tokens {
		used[t.ID] = &registry.Quotas{WaitingJobs: max(0, waiting[t.ID])}
		rate := t.Quotas.PushesPerSecond
		if rate == 0 {
			continue
		}
		if _, left, _, err := q.Draw(ctx, t.ID, rate, 0); err == nil {
			used[t.ID].PushesPerSecond = rate - left
		}
	}
	return used
}
