package dispatcher

import (
	"sync"
	"time"

	"github.com/wakecall/wakecall/internal/store"
)

// request is when leases were requested, and how long after that calls may start under them.
type request struct {
	sent   time.Time // monotonic
	window time.Duration
}

// startWindow is the start window of a reserver. It follows what Redis takes to answer: if that were never less than
// the window, no call could start.
type startWindow struct {
	widening sync.Mutex // held while a wider window is stored

	mu    sync.Mutex // guards the following
	late  int        // answers in a row that took longer than queue.StartWindow
	wide  time.Duration
	until time.Time // when wide ends
}

// ask returns a request that is sent now.
func (w *startWindow) ask() request {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Before(w.until) {
		return request{now, w.wide}
	}
	return request{now, store.StartWindow}
}

// end ends a wider window: the server may be another one, which does not have it, so deletions do not wait for it.
func (w *startWindow) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late, w.until = 0, time.Time{}
}

// wants reports whether a wider window should be stored after an answer that took so long: not after a single late one,
// since deletions wait for it, and again while the answers stay late.
func (w *startWindow) wants(took time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if took <= store.StartWindow {
		w.late = 0
		return false
	}
	w.late++
	return w.late > 1 && (took > w.wide/2 || time.Until(w.until) < store.WideFor/2)
}

// follow adapts the start window to the time that an answer took.
func (s *reserver) follow(took time.Duration) {
	w := &s.start
	if took > store.StartWindow {
		w.widening.Lock() // so that of many late answers one stores it
		defer w.widening.Unlock()
	}
	if !w.wants(took) {
		return
	}
	sent := time.Now()
	window, err := s.bucket.WidenStart(s.d.settles, took)
	if err != nil {
		return // after the next late answer
	}
	if window > w.wide || sent.After(w.until) {
		s.d.opts.Logger.Warn("Redis answers slowly; callbacks start later after their reservation, and deletions of "+
			"running jobs wait for that", "shard", s.bucket.Name(), "took", took, "start_window", window)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wide, w.until = window, sent.Add(store.WideFor-window)
}
