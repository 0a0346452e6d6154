package listen

import (
	"context"
	"io"
	"net"
	"net/http"
)

type connKey struct{}

// connContext stores the connection for track; it is the ConnContext of an http.Server.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = wrapped.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// track informs the listener which connections have a current request. The listener does not close these, except while
// they wait for the rest of a client's request.
func track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connKey{}).(*limitedConn)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		c.begin()
		defer c.end()
		if r.Body != http.NoBody {
			// A copy: before net/http sends an answer, it waits for the rest of any body but its own, even of one that
			// the client sends only after 100 Continue.
			r = r.WithContext(r.Context())
			r.Body = trackedBody{r.Body, c}
		}
		next.ServeHTTP(w, r)
	})
}

// trackedBody is the body of a request. While it waits for its client, the connection may be closed like one without a
// request. Otherwise clients that never send the rest would keep all others out.
type trackedBody struct {
	io.ReadCloser
	c *limitedConn
}

// Read implements io.Reader.
func (b trackedBody) Read(p []byte) (int, error) {
	b.c.busy.Add(-1)
	defer b.c.busy.Add(1)
	return b.ReadCloser.Read(p)
}

// BeginRequest marks the beginning of a request on a connection of TCP.
func BeginRequest(accepted net.Conn) { accepted.(*limitedConn).begin() }

// EndRequest marks the end of the request. It reports whether the connection may send another one; after CloseIdle it
// may not.
func EndRequest(accepted net.Conn) bool {
	c := accepted.(*limitedConn)
	c.end()
	return !c.listener.closing.Load()
}

func (c *limitedConn) begin() {
	c.busy.Add(1)
	if !c.asked.Swap(true) {
		c.listener.tick()
	}
}

func (c *limitedConn) end() {
	c.quiet.Store(c.listener.now())
	c.busy.Add(-1)
}
