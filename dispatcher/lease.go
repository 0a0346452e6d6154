package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/pause"
	"github.com/wakecall/wakecall/internal/store"
)

// States of a call whose lease must be confirmed once it has a connection. The goroutine that confirms the lease and
// the one that waits for the call agree by compare-and-swap on whether the call begins.
const (
	unasked int32 = iota // not confirmed yet, or not needed
	asking
	begun
	lost      // the lease expired
	abandoned // not confirmed in time
)

// confirm extends the lease of a call that may not start, and reports whether it is held. It retries until Redis
// answers in time, because abandoning a lease that is held would count an attempt that was not made. Meanwhile the call
// moves aside. It fails when ctx or the reserver ends.
func (s *reserver) confirm(ctx context.Context, r *reservation, ttr time.Duration) (held bool, err error) {
	for backoff := minBackoff; ctx.Err() == nil && s.ctx.Err() == nil; {
		asked := s.start.ask()
		lease := min(ttr, leaseCap) + asked.window - store.StartWindow
		ended, err := s.bucket.End(s.d.settles, []store.End{extended(r.Lease, lease)})
		took := time.Since(asked.sent)
		switch {
		case err != nil:
			s.d.places.stepAside(r.place)
			pause.For(ctx, jittered(backoff))
			backoff = min(2*backoff, maxBackoff)
		case ended[0].Err != nil:
			return false, nil
		case took <= asked.window:
			r.asked, r.ends = asked, asked.sent.Add(lease+store.LeaseGrace)
			return true, nil
		default:
			s.follow(took)
		}
	}
	return false, fmt.Errorf("confirm lease: %w", errors.Join(context.Cause(ctx), context.Cause(s.ctx)))
}

var errNotHeld = errors.New("lease expired")

// confirmConnected confirms the lease of a call that has a connection, just before the request is written, because
// connecting took longer than the start window.
func (s *reserver) confirmConnected(ctx context.Context, r *reservation, ttr time.Duration) error {
	if !r.start.CompareAndSwap(unasked, asking) && !r.start.CompareAndSwap(begun, asking) {
		return errNotHeld
	}
	held, err := s.confirm(ctx, r, ttr)
	next := begun
	switch {
	case err != nil:
		next = abandoned
	case !held:
		err, next = errNotHeld, lost
	}
	if !r.start.CompareAndSwap(asking, next) {
		return errNotHeld
	}
	return err
}

// An extender extends the leases of calls that may take longer than their first lease.
type extender struct {
	reserver *reserver

	mu   sync.Mutex
	held map[*store.Lease]*hold
	some chan struct{} // receives when there may be a lease to extend

	failed bool // the last call failed; used only by run
}

type hold struct {
	renew time.Time // monotonic
	end   time.Time // of the call's TTR, or far if it waits for the turn of its retry_if
}

// hold extends the lease of a reservation until the returned function is called. The first lease outlasts a short call,
// see mayStart, unless the evaluation of its retry_if waits, see prolong.
func (x *extender) hold(r *reservation, ttr time.Duration) (stop func()) {
	now := time.Now()
	h := &hold{renew: now.Add(min(ttr, leaseCap) / 3)}
	if ttr > leaseCap {
		h.end = now.Add(ttr)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.held) == 0 {
		x.tick()
	}
	x.held[r.Lease] = h
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.held, r.Lease)
	}
}

// maxJudging is longer than any evaluation waits.
const maxJudging = time.Hour

// prolong extends the lease of a call whose retry_if waits, also beyond the TTR. It does nothing if the call has ended.
func (x *extender) prolong(r *reservation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if h := x.held[r.Lease]; h != nil {
		h.end = time.Now().Add(maxJudging)
		x.tick()
	}
}

func (x *extender) tick() {
	select {
	case x.some <- struct{}{}:
	default:
	}
}

// run extends leases every second while there are any, and when one is prolonged.
func (x *extender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.some:
		}
		for !x.empty() {
			select {
			case <-ctx.Done():
				return
			case <-x.some:
			case <-time.After(time.Second):
			}
			for list := x.due(); len(list) > 0 && x.extend(ctx, list); list = x.due() {
			}
		}
	}
}

func (x *extender) empty() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.held) == 0
}

func (x *extender) due() []*store.Lease {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	var list []*store.Lease
	for l, h := range x.held {
		if now.After(h.renew) && now.Before(h.end) && len(list) < settleLimit {
			h.renew = now.Add(leaseCap / 3)
			list = append(list, l)
		}
	}
	return list
}

// extended makes a lease end d plus queue.LeaseGrace from now.
func extended(l *store.Lease, d time.Duration) store.End {
	return store.End{Lease: l, Verb: store.Extend, Delay: d + store.LeaseGrace}
}

// extend extends leases and reports whether Redis answered. If not, the next round retries. A lost lease is detected
// when its job is settled.
func (x *extender) extend(ctx context.Context, leases []*store.Lease) bool {
	list := make([]store.End, len(leases))
	for i, l := range leases {
		list[i] = extended(l, leaseCap)
	}
	_, err := x.reserver.bucket.End(ctx, list)
	if err == nil {
		x.failed = false
		return true
	}
	if !x.failed {
		x.reserver.d.opts.Logger.Warn("cannot extend leases; retrying",
			"shard", x.reserver.bucket.Name(), "leases", len(leases), "error", err)
	}
	x.failed = true
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range leases {
		if h := x.held[l]; h != nil {
			h.renew = time.Time{}
		}
	}
	return false
}
