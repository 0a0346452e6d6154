package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// TCP runs serve for each connection of l until ctx is done, and then stops gracefully. It closes l, and returns when
// every serve has returned, or ShutdownTimeout after it began to close connections.
//
// serve marks the beginning and end of each request with BeginRequest and EndRequest. Its ctx ends when connections are
// closed; a request in progress should not depend on it (context.WithoutCancel). TCP closes the connection after serve
// returns.
func TCP(ctx context.Context, l net.Listener, o Options, serve func(ctx context.Context, c net.Conn)) error {
	o = o.withDefaults()
	conns := limitConns(l, maxConns(o.MaxConns))
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	accepted := make(chan error, 1)
	go func() {
		accepted <- accept(conns, func(c net.Conn) {
			wg.Go(func() {
				defer c.Close()
				serve(inner, c)
			})
		})
	}()
	var err error
	select {
	case failed := <-accepted:
		err = fmt.Errorf("accept connections on %s: %w", l.Addr(), failed)
		_ = conns.Close()
	case <-ctx.Done():
		_ = conns.Close() // a successor, if any, accepts new connections
		<-accepted        //nolint:errcheck // net.ErrClosed
		if o.isReplaced() {
			conns.WaitForEnd(o.linger())
		}
	}
	cancel()
	conns.CloseIdle()
	conns.WaitForEnd(o.ShutdownTimeout)
	if n := conns.CloseAll(); n > 0 {
		err = errors.Join(err,
			fmt.Errorf("%d requests on %s still in progress after %s", n, l.Addr(), o.ShutdownTimeout))
	}
	wg.Wait()
	return err
}

// Pauses after a connection could not be accepted, for example because no descriptor was free.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// accept passes every connection to serve until the listener is closed.
func accept(l *limited, serve func(net.Conn)) error {
	pause := minPause
	for {
		c, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil:
			time.Sleep(pause)
			pause = min(2*pause, maxPause)
		default:
			pause = minPause
			serve(c)
		}
	}
}
