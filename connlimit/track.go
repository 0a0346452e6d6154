package connlimit

import (
	"context"
	"net"
	"net/http"
	"time"
)

type connKey struct{}

// ConnContext puts the connection where Track finds it; it is for http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = wrapped.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Track tells the listener which connections have a request under way: it closes none of them.
func Track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*conn)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		c.begin()
		defer c.end()
		next.ServeHTTP(w, r)
	})
}

// Begin tells the listener that an accepted connection has a request under way, as Track does for HTTP.
func Begin(accepted net.Conn) { accepted.(*conn).begin() }

// End tells the listener that the request has been answered. It says whether the connection may bring another one:
// after CloseIdle none may.
func End(accepted net.Conn) bool {
	c := accepted.(*conn)
	c.end()
	return !c.listener.closing.Load()
}

func (c *conn) begin() {
	c.busy.Add(1)
	if !c.asked.Swap(true) {
		c.listener.tick()
	}
}

func (c *conn) end() {
	c.quiet.Store(time.Now().UnixNano())
	c.busy.Add(-1)
}
