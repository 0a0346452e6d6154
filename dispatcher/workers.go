package dispatcher

import "sync"

// workers are goroutines that handle reservations one after another. A new goroutine for each would have to grow its
// stack, which costs a twentieth of a callback.
type workers struct {
	free chan work // unbuffered: a send succeeds only if a worker is free
	end  chan struct{}
	all  sync.WaitGroup
}

type work struct {
	reserver *reserver
	r        *reservation
}

func newWorkers() *workers { return &workers{free: make(chan work), end: make(chan struct{})} }

// do gives a reservation to a free worker, or to a new one. There are never more workers than concurrent reservations.
func (w *workers) do(s *reserver, r *reservation) {
	select {
	case w.free <- work{s, r}:
	default:
		w.all.Go(func() { w.run(work{s, r}) })
	}
}

func (w *workers) run(next work) {
	for {
		next.reserver.handle(next.r)
		next = work{}
		select {
		case next = <-w.free:
		case <-w.end:
			return
		}
	}
}

// stop ends the workers and waits for them. do must not be called afterwards.
func (w *workers) stop() {
	close(w.end)
	w.all.Wait()
}
