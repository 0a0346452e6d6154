package batch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Request is what one goroutine asks for: Value, which is answered by an A.
type Request[Q, A any] struct {
	Value Q
	size  Size
	since time.Time // when it was added; zero: it may wait for any time

	mu       sync.Mutex
	answered bool
	left     bool // the caller waits no longer
	answer   A
	err      error
	done     chan struct{} // closed when the answer is there; nil: nobody waits for it
}

// Size is how much of a call a request takes up.
type Size struct {
	Jobs  int
	Bytes int
	Large bool // a part of a large request
	// Topics adds the topics of the request to those of the call, and returns for how many it counts. nil: none.
	Topics func(seen map[string]bool) float64
}

func (s *Size) topics(seen map[string]bool) float64 {
	if s.Topics == nil {
		return 0
	}
	return s.Topics(seen)
}

// Wait waits for the answer. When ctx ends first, the answer has no taker.
func (r *Request[Q, A]) Wait(ctx context.Context) (A, error) {
	select {
	case <-r.answers():
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answered {
		return r.answer, r.err
	}
	r.left = true
	return r.answer, ctx.Err()
}

// answers returns a channel that is closed when the answer is there.
func (r *Request[Q, A]) answers() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = make(chan struct{})
		if r.answered {
			close(r.done)
		}
	}
	return r.done
}

// Answer hands over the answer, and reports whether the caller still waits for it. If not, whoever answers must undo
// what the answer stands for.
func (r *Request[Q, A]) Answer(a A, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer, r.err, r.answered = a, err, true
	if r.done != nil {
		close(r.done)
	}
	return !r.left
}

// Refuse answers with an error.
func (r *Request[Q, A]) Refuse(err error) {
	var none A
	r.Answer(none, err)
}

// Left reports whether the caller has left.
func (r *Request[Q, A]) Left() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

// List makes the call for requests that are lists: it passes the elements of a batch to call as one list, and gives
// each request its part of the answers.
func List[Q, A any](call func([]Q) []A) func(slot int, batch []*Request[[]Q, []A]) {
	return func(_ int, batch []*Request[[]Q, []A]) {
		list := batch[0].Value
		if len(batch) > 1 {
			lists := make([][]Q, len(batch))
			for i, r := range batch {
				lists[i] = r.Value
			}
			list = slices.Concat(lists...)
		}
		answers := call(list)
		for _, r := range batch {
			n := len(r.Value)
			r.Answer(answers[:n:n], nil)
			answers = answers[n:]
		}
	}
}
