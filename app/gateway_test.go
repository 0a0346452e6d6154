package app

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/wakecall/wakecall/gateway"
	"github.com/wakecall/wakecall/master"
)

// fakeGateway serves until it is stopped, if prepare succeeds.
func fakeGateway(name string, prepare func() error) gateway.Listener {
	serve := func(ctx context.Context, _ net.Listener) error { return untilDone(ctx) }
	return gateway.Listener{
		Endpoint: &gateway.Endpoint{Name: name}, Listener: &net.TCPListener{}, Key: name,
		Prepare: func(context.Context) (gateway.Serve, error) { return serve, prepare() },
	}
}

func stateOf(r role, name string) (state, failure string) {
	for _, s := range r.status()["services"].([]master.ServiceState) {
		if s.Name == name {
			return s.State, s.Error
		}
	}
	return "", ""
}

// TestAGatewayThatCannotServeStopsNoOther: it is tried again, and its status says why. The process is ready once each
// listener was tried.
func TestAGatewayThatCannotServeStopsNoOther(t *testing.T) {
	var repaired atomic.Bool
	slow := make(chan struct{})
	r := serveGateways([]gateway.Listener{
		fakeGateway("phpdq", func() error { <-slow; return nil }),
		fakeGateway("grape", func() error {
			if repaired.Load() {
				return nil
			}
			return errors.New("no accounts")
		}),
		{Endpoint: &gateway.Endpoint{Name: "lmstfy"}, Key: "lmstfy"}, // the start could not listen
	}, quickServices(t))
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.serve(ctx, func() { close(ready) }) }()
	eventually(t, "grape was tried", func() bool { _, failure := stateOf(r, "grape"); return failure == "no accounts" })
	select {
	case <-ready:
		t.Error("ready before every listener was tried")
	default:
	}
	close(slow)
	<-ready
	if state, failure := stateOf(r, "phpdq"); state != serviceRunning || failure != "" {
		t.Errorf("the other one is %s, %s", state, failure)
	}
	if _, failure := stateOf(r, "lmstfy"); !strings.Contains(failure, "lmstfy could not be listened on") {
		t.Errorf("without a socket: %s", failure)
	}
	repaired.Store(true)
	eventually(t, "grape serves", func() bool { state, _ := stateOf(r, "grape"); return state == serviceRunning })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAListenerThatCannotAcceptEndsTheProcess, so that the master starts another one; the error has its protocol.
func TestAListenerThatCannotAcceptEndsTheProcess(t *testing.T) {
	broken, fine := errors.New("bad file descriptor"), func() error { return nil }
	phpdq := fakeGateway("phpdq", fine)
	phpdq.Prepare = gateway.Serve(func(context.Context, net.Listener) error { return broken }).Prepare
	r := serveGateways([]gateway.Listener{fakeGateway("grape", fine), phpdq}, quickServices(t))
	if err := r.serve(t.Context(), func() {}); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "phpdq: ") {
		t.Errorf("it ended with %v", err)
	}
}
