package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

// signals handles signals to stop, to stop at once, and to reload.
type signals struct {
	terminate chan os.Signal
	hup       chan os.Signal
	kill      chan struct{} // closed at the second signal to stop
	handled   atomic.Bool   // the command handles kill
	done      chan struct{}
	ended     sync.WaitGroup
}

func watchSignals() *signals {
	s := &signals{
		terminate: make(chan os.Signal, 4), hup: make(chan os.Signal, 1),
		kill: make(chan struct{}), done: make(chan struct{}),
	}
	signal.Notify(s.terminate, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR2)
	return s
}

// supervise is called by a master: from then on SIGHUP reloads, and the master handles a second signal to stop.
func (s *signals) supervise() {
	s.handleKill()
	s.outliveLog()
	signal.Notify(s.hup, syscall.SIGHUP)
}

// outliveLog is called by a process that keeps running after the reader of its log has exited. Other commands exit with
// their reader, as in `wakecall stats | head`.
func (s *signals) outliveLog() { signal.Ignore(syscall.SIGPIPE) }

// handleKill is called by a command that exits by itself when kill is closed.
func (s *signals) handleKill() { s.handled.Store(true) }

// context returns a context that ends with the first signal to stop. A second signal ends the process, unless the
// command handles it.
func (s *signals) context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	s.ended.Go(func() {
		defer cancel()
		if s.next() {
			return
		}
		cancel()
		for sig := os.Signal(syscall.SIGUSR2); sig == syscall.SIGUSR2; { // repeated USR2 signals stay graceful
			select {
			case <-s.done:
				return
			case sig = <-s.terminate:
			}
		}
		close(s.kill)
		if !s.handled.Load() {
			os.Exit(exitFailed)
		}
	})
	return ctx
}

// next waits for a signal to stop (false), or for a call of stop (true).
func (s *signals) next() (ended bool) {
	select {
	case <-s.done:
		return true
	case <-s.terminate:
		return false
	}
}

// stop ends the handling of signals.
func (s *signals) stop() {
	signal.Stop(s.terminate)
	signal.Stop(s.hup)
	close(s.done)
	s.ended.Wait()
}
