package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Listener is a protocol with the socket that it serves.
type Listener struct {
	*Endpoint
	net.Listener
	Serve Serve
}

// Run serves all listeners until ctx is done and all of them have stopped. If one fails, the others stop, too, and the
// master restarts the process.
func Run(ctx context.Context, listeners []Listener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(listeners))
	var wg sync.WaitGroup
	for i, l := range listeners {
		wg.Go(func() {
			if err := l.Serve(ctx, l.Listener); err != nil {
				errs[i] = fmt.Errorf("%s: %w", l.Name, err)
				stop()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Status returns what `wakecall ps` and the admin show about a gateway: the number of open connections of each
// protocol.
func Status(listeners []Listener) map[string]any {
	conns := map[string]int64{}
	for _, l := range listeners {
		conns[l.Name] = l.conns.Load() // of all listeners of the protocol
	}
	return map[string]any{"connections": conns}
}
