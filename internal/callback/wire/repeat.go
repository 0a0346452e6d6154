package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"syscall"
)

// MayRepeat reports whether a request that failed with err should be sent a second time, over a new connection. It
// should if nothing of it reached the endpoint: its connection was refused, or was closed before anything was written,
// or was reused and closed by the endpoint before it received anything. The last case occurs if an endpoint closes idle
// connections. All other calls are attempts, which the job's history shows.
func (x *Exchange) MayRepeat(ctx context.Context, err error) bool {
	if ctx.Err() != nil || x.held.Load() || !x.unreceived(err) {
		return false
	}
	if x.reused.Load() {
		x.pool.retire(x.used)
	}
	return true
}

func (x *Exchange) unreceived(err error) bool {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return true
	case x.http2.Load(): // with HTTP/2, net/http knows which requests were not processed
		return false
	case x.wrote.Load():
		return x.reused.Load() && !x.answered.Load() && x.conn.missed.Load()
	case errors.Is(err, errUnasked):
		return true
	case x.reused.Load(): // net/http has several errors for a closed connection, all unexported
		return !x.answered.Load() && !timedOut(err)
	}
	closed := []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, net.ErrClosed}
	return slices.ContainsFunc(closed, func(e error) bool { return errors.Is(err, e) })
}

func timedOut(err error) bool {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// missedRequest reports whether the endpoint had closed the connection before it received anything of the last request.
// It closes with FIN, which acknowledges all that it had received. After a reset, nothing is known.
func (c *conn) missedRequest() bool {
	missed := false
	control(c.Conn, func(fd int) {
		n, err := peek(fd)
		closed := n == 0 && err == nil
		received, failed := acked(fd)
		missed = closed && !c.reset.Load() && failed == nil &&
			received <= c.start.Load()+1 // the SYN counts as a byte
	})
	return missed
}
