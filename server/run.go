package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/wakecall/wakecall/connlimit"
)

// Run serves on l until ctx is done and then stops gracefully. It returns when every request has ended, or
// ShutdownTimeout later; l is closed then.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	conns := connlimit.New(l, connlimit.Max(s.limits.MaxConns))
	base, cancel := context.WithCancel(context.WithoutCancel(ctx)) // stopping does not cancel requests
	defer cancel()
	srv := s.httpServer(base)
	served := make(chan error, 1)
	go func() { served <- serve(srv, conns) }()
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serving on %s: %w", l.Addr(), err), srv.Close())
	case <-ctx.Done():
	}
	err := s.stop(srv, conns)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) && !errors.Is(serveErr, net.ErrClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

func serve(srv *http.Server, l net.Listener) error {
	if srv.TLSConfig != nil {
		return srv.ServeTLS(l, "", "")
	}
	return srv.Serve(l)
}

// maxStreams is how many requests a connection of HTTP/2 may have under way.
const maxStreams = 100

func (s *Server) httpServer(base context.Context) *http.Server {
	srv := &http.Server{
		Handler:                      connlimit.Track(s),
		DisableGeneralOptionsHandler: true, // so that OPTIONS * is answered as any other request
		ReadHeaderTimeout:            s.limits.HeaderTimeout,
		ReadTimeout:                  s.limits.ReadTimeout,
		WriteTimeout:                 s.limits.WriteTimeout,
		IdleTimeout:                  s.limits.IdleTimeout,
		MaxHeaderBytes:               s.limits.MaxHeader,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ConnContext:                  connlimit.ConnContext,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams,
			WriteByteTimeout: s.limits.StallTimeout},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.opts.TLS != nil {
		srv.TLSConfig = s.opts.TLS.Clone()
	}
	return srv
}

// maxLinger is how long a replaced server waits for one more request on each kept connection, whose answer then says
// that the connection ends. When a connection was idle for so long, a request that crosses its end is very unlikely.
const maxLinger = 10 * time.Second

// firstRequest is how long a stopping server waits for the first requests of accepted connections. Shutdown would wait as
// long, but not answer them.
const firstRequest = 5 * time.Second

// stop drains the server; the package's documentation explains the order.
func (s *Server) stop(srv *http.Server, conns *connlimit.Listener) error {
	s.draining.Store(true)
	if s.opts.LameDuck > 0 {
		time.Sleep(s.opts.LameDuck)
	}
	if s.opts.Replaced != nil && s.opts.Replaced() {
		_ = conns.Close() // the successor accepts
		conns.WaitForEnd(min(maxLinger, s.opts.ShutdownTimeout/3))
	}
	// net/http does not answer first requests that it reads after Shutdown, so they have to be there before.
	_ = conns.Close()
	conns.WaitForFirstRequests(min(firstRequest, s.opts.ShutdownTimeout/3))
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.ShutdownTimeout)
	defer cancel()
	err := srv.Shutdown(ctx)
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("requests were still under way after %s: %w", s.opts.ShutdownTimeout, err), srv.Close())
}
