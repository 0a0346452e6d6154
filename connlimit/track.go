package connlimit

import (
	"context"
	"io"
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

// Track tells the listener which connections have a request under way: it closes none of them, but those whose client
// has not sent all of its request yet.
func Track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*conn)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		c.begin()
		defer c.end()
		if r.Body != http.NoBody {
			r.Body = body{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// body is that of a request. While it waits for its client, its connection gives way as one without a request: clients
// that never send the rest would keep all others out.
type body struct {
	io.ReadCloser
	c *conn
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	b.c.busy.Add(-1)
	defer b.c.busy.Add(1)
	return b.ReadCloser.Read(p)
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
