package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// HTTP serves srv on l until ctx is done and then stops gracefully. It closes l, and returns when every request has
// ended, or after ShutdownTimeout. It sets the Handler, BaseContext, ConnContext and TLSConfig of srv.
func HTTP(ctx context.Context, l net.Listener, srv *http.Server, o Options) error {
	s := &httpListener{Options: o.withDefaults(), srv: srv}
	if s.Refusal != nil {
		l = refusals{l, s.Refusal}
	}
	s.conns = limitConns(l, maxConns(s.MaxConns))
	base, cancel := context.WithCancel(context.WithoutCancel(ctx)) // stopping does not cancel requests
	defer cancel()
	s.prepare(base)
	served := make(chan error, 1)
	go func() { served <- s.serve() }()
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serve on %s: %w", l.Addr(), err), srv.Close())
	case <-ctx.Done():
	}
	err := s.stop()
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) && !errors.Is(serveErr, net.ErrClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

type httpListener struct {
	Options
	srv      *http.Server
	conns    *limited
	draining atomic.Bool
}

func (s *httpListener) prepare(base context.Context) {
	next := s.srv.Handler
	s.srv.Handler = track(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	}))
	s.srv.BaseContext = func(net.Listener) context.Context { return base }
	s.srv.ConnContext = connContext
	if s.TLS != nil {
		s.srv.TLSConfig = withProtocols(s.TLS)
	}
}

func (s *httpListener) serve() error {
	if s.TLS != nil {
		return s.srv.Serve(newHandshakes(s.conns, s.srv.TLSConfig, s.srv.ReadHeaderTimeout, s.Refusal))
	}
	return s.srv.Serve(s.conns)
}

// firstRequest is how long a stopping listener waits for the first request of accepted connections. Shutdown would wait
// as long, but would not answer them.
const firstRequest = 5 * time.Second

// stop drains the server. The package's documentation explains the order.
func (s *httpListener) stop() error {
	s.draining.Store(true)
	if s.Draining != nil {
		s.Draining()
	}
	if s.LameDuck > 0 {
		time.Sleep(s.LameDuck)
	}
	if s.isReplaced() {
		_ = s.conns.Close() // the successor accepts new connections
		s.conns.WaitForEnd(s.linger())
	}
	// net/http does not answer first requests that it reads after Shutdown, so they must arrive before.
	_ = s.conns.Close()
	s.conns.WaitForFirstRequests(min(firstRequest, s.ShutdownTimeout/3))
	ctx, cancel := context.WithTimeout(context.Background(), s.ShutdownTimeout)
	defer cancel()
	err := s.srv.Shutdown(ctx)
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("requests still in progress after %s: %w", s.ShutdownTimeout, err), s.srv.Close())
}
