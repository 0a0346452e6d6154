package connlimit

import (
	"context"
	"io"
	"net"
	"net/http"
)

type connKey struct{}

// ConnContext stores the connection for Track; use it as http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = wrapped.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Track tells the listener which connections have a current request. The listener does not close these, except while it
// waits for the rest of a client's request.
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
			// A copy: before net/http sends an answer, it waits for the rest of any body but its own, and so for one that
			// its client sends only after 100 Continue.
			r = r.WithContext(r.Context())
			r.Body = body{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// body is the body of a request. While it waits for its client, the connection may be closed like one without a
// request: otherwise clients that never send the rest would keep all others out.
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

// Begin tells the listener that an accepted connection has a current request, as Track does for HTTP.
func Begin(accepted net.Conn) { accepted.(*conn).begin() }

// End tells the listener that the request was answered. It reports whether the connection may send another one; after
// CloseIdle none may.
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
	c.quiet.Store(c.listener.now())
	c.busy.Add(-1)
}
