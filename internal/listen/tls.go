package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// handshakes is a listener of TLS connections after their handshake. net/http could perform the handshake itself, but
// only with a *tls.Conn, whose writes cannot be inspected. It gets a *tls.Conn for HTTP/2, and a refusingTLS for
// HTTP/1.1.
type handshakes struct {
	net.Listener
	config  *tls.Config
	timeout time.Duration
	refuse  Refusal
	ready   chan accepted // closed after the last one
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{}
}

type accepted struct {
	conn net.Conn
	err  error
}

// withProtocols returns a copy of a configuration that offers HTTP/2.
func withProtocols(config *tls.Config) *tls.Config {
	config = config.Clone()
	for _, p := range []string{"h2", "http/1.1"} {
		if !slices.Contains(config.NextProtos, p) {
			config.NextProtos = append(config.NextProtos, p)
		}
	}
	return config
}

// newHandshakes performs handshakes on connections from l until l or the listener is closed.
func newHandshakes(l net.Listener, config *tls.Config, timeout time.Duration, refuse Refusal) *handshakes {
	ctx, cancel := context.WithCancel(context.Background())
	h := &handshakes{l, config, timeout, refuse, make(chan accepted), ctx, cancel, make(chan struct{})}
	go h.run()
	return h
}

func (h *handshakes) run() {
	defer close(h.done)
	defer close(h.ready)
	var running sync.WaitGroup
	defer running.Wait()
	for {
		c, err := h.Listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			h.give(accepted{err: err})
		default:
			running.Go(func() { h.give(accepted{conn: h.shake(c)}) })
		}
	}
}

// shake also passes on a connection whose handshake failed; net/http reports the error and closes it.
func (h *handshakes) shake(c net.Conn) net.Conn {
	ctx, cancel := context.WithTimeout(h.ctx, h.timeout)
	defer cancel()
	secured := tls.Server(c, h.config)
	err := secured.HandshakeContext(ctx)
	if err != nil || h.refuse == nil || secured.ConnectionState().NegotiatedProtocol == "h2" {
		return secured
	}
	return refusingTLS{secured, h.refuse}
}

func (h *handshakes) give(a accepted) {
	select {
	case h.ready <- a:
	case <-h.ctx.Done():
		if a.conn != nil {
			_ = a.conn.Close()
		}
	}
}

// Accept also returns connections whose handshake had begun before the listener below was closed.
func (h *handshakes) Accept() (net.Conn, error) {
	a, ok := <-h.ready
	if !ok {
		return nil, net.ErrClosed
	}
	return a.conn, a.err
}

// Close ends the handshakes.
func (h *handshakes) Close() error {
	h.cancel()
	err := h.Listener.Close()
	<-h.done
	return err
}
