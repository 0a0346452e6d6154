package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/wakecall/wakecall/internal/listen"
)

// Run serves on l until ctx is done and then stops gracefully, as package listen explains. It closes l, and returns
// when every request has ended, or after ShutdownTimeout.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	defer s.stop()
	uses, stop := context.WithCancel(context.WithoutCancel(ctx)) // until all requests have ended
	var storing sync.WaitGroup
	storing.Go(func() { s.storeUses(uses) })
	if s.opts.Meter != nil {
		storing.Go(func() { s.opts.Meter.Run(uses, s.registry.Snapshot) })
	}
	defer storing.Wait()
	defer stop()
	return listen.HTTP(ctx, l, s.httpServer(), listen.Options{
		MaxConns: s.limits.MaxConns, TLS: s.opts.TLS,
		ShutdownTimeout: s.opts.ShutdownTimeout, LameDuck: s.opts.LameDuck, Replaced: s.opts.Replaced,
		Draining: func() { s.draining.Store(true); s.stop() }, Refusal: refusal,
	})
}

// refusal returns the problem for a refused connection.
func refusal(status int, detail string) (http.Header, []byte) {
	p, id := &Problem{Status: status, Detail: detail}, rand.Text()
	body, err := json.Marshal(p.document(id))
	if err != nil {
		body = []byte("{}")
	}
	return http.Header{"Content-Type": problemType, headerRequestID: {id}}, body
}

// maxStreams limits the concurrent requests on an HTTP/2 connection.
const maxStreams = 100

func (s *Server) httpServer() *http.Server {
	return &http.Server{
		Handler:                      s,
		DisableGeneralOptionsHandler: true, // OPTIONS * is answered like any other request
		ReadHeaderTimeout:            s.limits.HeaderTimeout,
		ReadTimeout:                  s.limits.ReadTimeout,
		WriteTimeout:                 s.limits.WriteTimeout,
		IdleTimeout:                  s.limits.IdleTimeout,
		MaxHeaderBytes:               s.limits.MaxHeader,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams,
			WriteByteTimeout: s.limits.StallTimeout},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}
