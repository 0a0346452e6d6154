package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/wakecall/wakecall/master"
)

// service is a part of a role that runs until its context is done.
type service struct {
	name string
	run  func(context.Context) error
}

// States of a service, as shown by `wakecall ps` and the admin.
const (
	serviceRunning = "running"
	serviceWaiting = "waiting" // failed; restarted after a pause
)

const (
	firstPause = time.Second
	longPause  = time.Minute // longest pause between restarts; a run this long resets the pause
)

// services runs services concurrently. A failed service is restarted after a pause that doubles each time, and does not
// affect the others.
type services struct {
	log        *slog.Logger
	firstPause time.Duration

	mu     sync.Mutex
	states []master.ServiceState
}

func newServices(log *slog.Logger) *services { return &services{log: log, firstPause: firstPause} }

// run runs services until ctx is done and all of them have ended.
func (s *services) run(ctx context.Context, list ...service) error {
	now := time.Now().UTC()
	s.mu.Lock()
	s.states = make([]master.ServiceState, len(list))
	for i := range list {
		s.states[i] = master.ServiceState{Name: list[i].name, State: serviceRunning, Since: now}
	}
	s.mu.Unlock()
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() { errs[i] = s.keepRunning(ctx, i, list[i]) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

var errEnded = errors.New("ended unexpectedly")

// keepRunning runs one service, restarting it if it ends, until ctx is done. It returns the error with which the
// service then stopped.
func (s *services) keepRunning(ctx context.Context, i int, one service) error {
	pause := s.firstPause
	for {
		started := time.Now()
		err := one.run(ctx)
		if ctx.Err() != nil {
			return err
		}
		if time.Since(started) >= longPause {
			pause = s.firstPause
		}
		err = cmp.Or(err, errEnded)
		s.log.Error("service failed; restarting", "service", one.name, "pause", pause.String(), "error", err)
		s.set(i, func(st *master.ServiceState) { st.State, st.Error = serviceWaiting, err.Error() })
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
		s.set(i, func(st *master.ServiceState) { st.State, st.Restarts = serviceRunning, st.Restarts+1 })
	}
}

func (s *services) set(i int, change func(*master.ServiceState)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.states[i])
	s.states[i].Since = time.Now().UTC()
}

// list returns the state of each service.
func (s *services) list() []master.ServiceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]master.ServiceState(nil), s.states...)
}
