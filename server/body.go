package server

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// buffer is a reusable byte slice.
type buffer struct {
	b     []byte
	taken int64 // bytes of the budget in use, by owner
	owner string
	lent  bool // the queue may still use it
}

// Write implements io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.b = append(b.b, p...)
	return len(p), nil
}

// Sizes of buffers: most requests fit into firstBuffer; buffers above maxPooled do not return to the pool.
const (
	firstBuffer = 2 << 10
	maxPooled   = 512 << 10
)

// buffers lends buffers to requests. The total memory of buffers larger than firstBuffer is bounded, so that many large
// pushes waiting for a slow Redis cannot exhaust memory.
type buffers struct {
	pool  sync.Pool
	share int64 // bytes that the requests of one token may use

	mu     sync.Mutex
	left   int64 // bytes
	owners map[string]int64
}

func newBuffers(budget int64) *buffers {
	p := &buffers{left: budget, share: budget / 4 * 3, owners: map[string]int64{}}
	p.pool.New = func() any { return &buffer{b: make([]byte, 0, firstBuffer)} }
	return p
}

func (p *buffers) get() *buffer { return p.pool.Get().(*buffer) }

// put takes back a buffer. If the queue still uses it, it is left to the garbage collector.
func (p *buffers) put(buf *buffer) {
	if buf.taken > 0 {
		p.giveBack(buf)
	}
	if buf.lent || cap(buf.b) > maxPooled {
		return
	}
	buf.b = buf.b[:0]
	p.pool.Put(buf)
}

var (
	errBudget = errors.New("too many large requests in progress")
	errShare  = errors.New("too many large requests of this token in progress")
)

// grow makes room for n bytes in total.
func (p *buffers) grow(buf *buffer, n int) error {
	if n > firstBuffer {
		if err := p.take(buf, int64(n)-buf.taken); err != nil {
			return err
		}
	}
	if n > cap(buf.b) {
		bigger := make([]byte, len(buf.b), n)
		copy(bigger, buf.b)
		buf.b = bigger
	}
	return nil
}

func (p *buffers) take(buf *buffer, n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case n > p.left:
		return errBudget
	case p.owners[buf.owner]+n > p.share:
		return errShare
	}
	p.left -= n
	p.owners[buf.owner] += n
	buf.taken += n
	return nil
}

func (p *buffers) giveBack(buf *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left += buf.taken
	if p.owners[buf.owner] -= buf.taken; p.owners[buf.owner] == 0 {
		delete(p.owners, buf.owner)
	}
	buf.taken = 0
}

// withBody reads the request's body, at most limit bytes, for h.
func (s *Server) withBody(c *call, limit int64, h func(body *buffer) error) error {
	buf := s.buffers.get()
	defer s.buffers.put(buf)
	buf.owner = c.token.Name
	if err := s.read(c, buf, limit); err != nil {
		return err
	}
	return h(buf)
}

// read fills the buffer with the request's body, at most limit bytes.
func (s *Server) read(c *call, buf *buffer, limit int64) error {
	r := c.Request()
	if err := checkEncoding(r); err != nil {
		return err
	}
	if r.ContentLength > limit {
		return tooLarge("", "request body has %d bytes; the limit is %d", r.ContentLength, limit)
	}
	err := s.readAll(c, buf, limit)
	var problem *Problem
	switch {
	case err == nil || errors.As(err, &problem):
		return err
	case errors.Is(err, errBudget) || errors.Is(err, errShare):
		return unavailable(err, time.Second, "%v; try again later", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Problem{Status: http.StatusRequestTimeout, cause: err,
			Detail: "request body arrives too slowly; the minimum is 1 KiB/s"}
	}
	return &Problem{Status: http.StatusBadRequest, Detail: "request body is incomplete", cause: err}
}

// readAll allocates memory for the bytes that have arrived, rather than for the declared Content-Length.
func (s *Server) readAll(c *call, buf *buffer, limit int64) error {
	r := c.Request()
	most, known := int(limit)+1, r.ContentLength >= 0
	if known {
		most = int(r.ContentLength)
	}
	if known && most <= firstBuffer { // too small to need a minimum rate: ReadTimeout is enough
		buf.b = buf.b[:most]
		_, err := io.ReadFull(r.Body, buf.b)
		return err
	}
	pace := s.newPace(c)
	for room := min(most, firstBuffer); len(buf.b) < most; {
		if len(buf.b) == room {
			room = min(most, 4*room)
		}
		if err := s.buffers.grow(buf, room); err != nil {
			return err
		}
		pace.expect(len(buf.b))
		n, err := r.Body.Read(buf.b[len(buf.b):room])
		buf.b = buf.b[:len(buf.b)+n]
		switch {
		case errors.Is(err, io.EOF) && known && len(buf.b) < most:
			return io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			most = len(buf.b)
		case err != nil:
			return err
		}
	}
	if int64(len(buf.b)) > limit {
		return tooLarge("", "request body has more than %d bytes", limit)
	}
	return nil
}

// minRate is the minimum average rate of a body after Limits.BodyGrace, in bytes per second.
const minRate = 1 << 10

// pace sets the deadlines for reading a body. When the body has arrived, net/http removes the deadline, because it
// keeps reading to notice when the client disconnects. After a body was refused, the deadline bounds net/http's attempt
// to read the rest.
type pace struct {
	conn         *http.ResponseController
	began, until time.Time
	grace        time.Duration
}

func (s *Server) newPace(c *call) *pace {
	now := time.Now()
	conn := http.NewResponseController(c.Response().Writer)
	return &pace{conn, now, now.Add(s.limits.ReadTimeout), s.limits.BodyGrace}
}

// expect sets the deadline of the next read, if the writer belongs to a connection.
func (p *pace) expect(received int) {
	at := p.began.Add(p.grace + time.Duration(received)*time.Second/minRate)
	if at.After(p.until) {
		at = p.until
	}
	_ = p.conn.SetReadDeadline(at)
}

// checkEncoding refuses compressed bodies, because they would be stored compressed.
func checkEncoding(r *http.Request) error {
	enc := r.Header.Get(echo.HeaderContentEncoding)
	if enc == "" || strings.EqualFold(enc, "identity") {
		return nil
	}
	return &Problem{Status: http.StatusUnsupportedMediaType, Detail: "Content-Encoding " + clip(enc) +
		" is not supported; send the body uncompressed"}
}
