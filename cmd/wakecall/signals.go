package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

// signals are what the process is told from outside: to stop, to stop at once, to reload.
type signals struct {
	terminate   chan os.Signal
	hup         chan os.Signal
	kill        chan struct{} // closed when the process is told twice to stop
	supervising atomic.Bool   // a master deals with hup and kill by itself
	done        chan struct{}
	ended       sync.WaitGroup
}

func watchSignals() *signals {
	s := &signals{
		terminate: make(chan os.Signal, 4), hup: make(chan os.Signal, 1), kill: make(chan struct{}), done: make(chan struct{}),
	}
	signal.Notify(s.terminate, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR2)
	return s
}

// supervise is called by a master: from now on SIGHUP means to reload, and stopping at once is the master's business.
func (s *signals) supervise() {
	s.supervising.Store(true)
	signal.Notify(s.hup, syscall.SIGHUP)
}

// context ends with the first signal to stop. A second one ends the process, unless a master sees to that.
func (s *signals) context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	s.ended.Go(func() {
		defer cancel()
		if s.next() {
			return
		}
		cancel()
		for sig := os.Signal(syscall.SIGUSR2); sig == syscall.SIGUSR2; { // USR2 asks to be graceful, however often
			select {
			case <-s.done:
				return
			case sig = <-s.terminate:
			}
		}
		close(s.kill)
		if !s.supervising.Load() {
			os.Exit(exitFailed)
		}
	})
	return ctx
}

// next waits for a signal to stop, or for the end of the watching (true).
func (s *signals) next() (ended bool) {
	select {
	case <-s.done:
		return true
	case <-s.terminate:
		return false
	}
}

// stop ends the watching.
func (s *signals) stop() {
	signal.Stop(s.terminate)
	signal.Stop(s.hup)
	close(s.done)
	s.ended.Wait()
}
