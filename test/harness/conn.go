package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"
)

// Conn is an HTTP/1.1 connection without pipelining, for the parts of HTTP that Go's servers send. It is for high rates:
// net/http would use more CPU time than the server under test, and would repeat failed requests on its own.
type Conn struct {
	Addr  string
	Short bool // make a new connection for each request

	Answers map[int]int // answers so far, by status
	Closed  int         // connections that the server closed after announcing that in an answer

	conn net.Conn
	r    *bufio.Reader
	body []byte
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
	if c.Answers == nil {
		c.Answers = map[int]int{}
	}
	c.Answers[status]++
	if closes {
		c.Closed++
	}
	if status != want && (want != 0 || status/100 != 2) {
		return nil, fmt.Errorf("status %d: %.300s", status, c.body)
	}
	return c.body, nil
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
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return 0, false, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, false, fmt.Errorf("status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, false, fmt.Errorf("status line %q", line)
	}
	length, closes, err := c.headers()
	if err == nil {
		err = c.readBody(length)
	}
	return status, closes, err
}

// chunked stands for the length of a chunked body.
const chunked = -1

// headers reads up to the empty line and returns the length of the body.
func (c *Conn) headers() (length int, closes bool, err error) {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		name, value, found := bytes.Cut(bytes.TrimSpace(line), []byte(": "))
		switch {
		case !found:
			return length, closes, nil
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, false, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = chunked
		case bytes.EqualFold(name, []byte("Connection")):
			closes = bytes.EqualFold(value, []byte("close"))
		}
	}
}

func (c *Conn) readBody(length int) error {
	c.body = c.body[:0]
	if length != chunked {
		return c.append(length)
	}
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return fmt.Errorf("chunk size %q", line)
		}
		if err := c.append(int(size)); err != nil {
			return err
		}
		if _, err := c.r.Discard(len("\r\n")); err != nil || size == 0 {
			return err
		}
	}
}

func (c *Conn) append(n int) error {
	if n < 0 {
		return errors.New("a negative length")
	}
	at := len(c.body)
	c.body = slices.Grow(c.body, n)[:at+n]
	_, err := io.ReadFull(c.r, c.body[at:])
	return err
}
