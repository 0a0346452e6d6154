package callback

import (
	"runtime"
	"sync/atomic"
)

// A costly retry_if takes some 10 ms of a core for each response, and calls that have just been answered are many. So
// evaluations take turns: those of one topic one after the other, and those of costly expressions, over all topics, on
// at most half of the cores. A cheap expression never waits for that of another topic.

// costly is the cost from which an evaluation needs one of the turns that all topics share, in units of the budget:
// about 1 ms. An expression counts as costly for a while after such an evaluation, since endpoints decide what their
// responses cost.
const costly = budget / 10

// turn orders the evaluations of one expression.
type turn struct {
	own  chan struct{} // has a capacity of one
	cost atomic.Int64  // of the last evaluations: the highest, lower by an eighth after each
}

func newTurn() *turn { return &turn{own: make(chan struct{}, 1)} }

// newShared returns the turns of costly expressions.
func newShared() chan struct{} { return make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)) }

// wait waits for the turn of an evaluation, until it ends with end. When the process stops, the evaluation begins at
// once, so that the outcome of a call that was answered is not lost.
func (t *turn) wait(stopping <-chan struct{}, shared chan struct{}) (end func()) {
	endOwn := acquire(stopping, t.own)
	if t.cost.Load() < costly {
		return endOwn
	}
	endShared := acquire(stopping, shared)
	return func() { endShared(); endOwn() }
}

func acquire(stopping <-chan struct{}, slots chan struct{}) (release func()) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }
	case <-stopping:
		return func() {}
	}
}

func (t *turn) note(cost int) { t.cost.Store(max(int64(cost), t.cost.Load()*7/8)) }
