package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Conn is an HTTP/1.1 connection without pipelining. It is for high rates: http.Client would use more CPU time than the
// server under test, and would repeat failed requests on its own.
type Conn struct {
	Addr  string
	Short bool // make a new connection for each request

	conn net.Conn
	r    *bufio.Reader
	body bytes.Buffer
}

// requestLimit is the time limit of a request whose context has none.
const requestLimit = time.Minute

// Request returns a request with a JSON body.
func Request(method, path, token, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: wakecall\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, token, len(body), body)
}

// Do sends a request and returns the body of its answer, which is valid until the next call. An answer with another
// status than wanted is an error (0: any success is wanted).
func (c *Conn) Do(ctx context.Context, request []byte, want int) ([]byte, error) {
	status, closes, err := c.do(ctx, request)
	if err != nil || closes || c.Short {
		c.Close()
	}
	if err != nil {
		return nil, err
	}
	if status != want && (want != 0 || status/100 != 2) {
		return nil, fmt.Errorf("status %d: %.300s", status, c.body.Bytes())
	}
	return c.body.Bytes(), nil
}

// Close closes the connection, if there is one. The next request opens another.
func (c *Conn) Close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func (c *Conn) do(ctx context.Context, request []byte) (status int, closes bool, err error) {
	if c.conn == nil {
		if c.conn, err = (&net.Dialer{Timeout: requestLimit}).DialContext(ctx, "tcp", c.Addr); err != nil {
			return 0, false, err
		}
		c.r = bufio.NewReaderSize(c.conn, 16<<10)
	}
	conn := c.conn
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(requestLimit)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return 0, false, err
	}
	if _, err := conn.Write(request); err != nil {
		return 0, false, err
	}
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, false, err
	}
	c.body.Reset()
	_, err = c.body.ReadFrom(res.Body)
	return res.StatusCode, res.Close, errors.Join(err, res.Body.Close())
}
