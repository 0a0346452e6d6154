package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
)

// buffer is a reusable byte slice.
type buffer struct {
	b     []byte
	taken int64 // of the budget
	lent  bool  // the queue may still refer to it
}

// Write makes a buffer an io.Writer.
func (b *buffer) Write(p []byte) (int, error) {
	b.b = append(b.b, p...)
	return len(p), nil
}

// Sizes of pooled buffers: most requests fit the first, and a larger one than keptBuffer is left to the garbage collector.
const (
	firstBuffer = 2 << 10
	keptBuffer  = 512 << 10
)

// buffers lends buffers to requests. The memory of large ones is bounded over all requests by the budget, so that many
// large pushes waiting for a slow Redis cannot fill the process's memory.
type buffers struct {
	pool   sync.Pool
	budget atomic.Int64 // bytes left
}

func newBuffers(budget int64) *buffers {
	p := &buffers{}
	p.pool.New = func() any { return &buffer{b: make([]byte, 0, firstBuffer)} }
	p.budget.Store(budget)
	return p
}

func (p *buffers) get() *buffer { return p.pool.Get().(*buffer) }

// put takes a buffer back; one that is lent is left to the garbage collector.
func (p *buffers) put(buf *buffer) {
	p.budget.Add(buf.taken)
	buf.taken = 0
	if buf.lent || cap(buf.b) > keptBuffer {
		return
	}
	buf.b = buf.b[:0]
	p.pool.Put(buf)
}

var errBudget = errors.New("too much is under way")

// grow makes room for at least n bytes altogether.
func (p *buffers) grow(buf *buffer, n int) error {
	if n <= firstBuffer {
		return nil
	}
	if need := int64(n) - buf.taken; need > 0 {
		if p.budget.Add(-need) < 0 {
			p.budget.Add(need)
			return errBudget
		}
		buf.taken += need
	}
	if n > cap(buf.b) {
		bigger := make([]byte, len(buf.b), n)
		copy(bigger, buf.b)
		buf.b = bigger
	}
	return nil
}

// withBody reads the request's body, at most limit bytes, for h.
func (s *Server) withBody(c *call, limit int64, h func(body *buffer) error) error {
	buf := s.buffers.get()
	defer s.buffers.put(buf)
	if err := s.read(c.Request(), buf, limit); err != nil {
		return err
	}
	return h(buf)
}

// read fills the buffer with the request's body, at most limit bytes.
func (s *Server) read(r *http.Request, buf *buffer, limit int64) error {
	if err := checkEncoding(r); err != nil {
		return err
	}
	if r.ContentLength > limit {
		return tooLarge("", "the request's body has %d bytes; at most %d are taken here", r.ContentLength, limit)
	}
	err := s.readAll(r, buf, limit)
	if err == nil {
		return nil
	}
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		return err
	case errors.Is(err, errBudget):
		return unavailable(err, time.Second, "too many large requests are under way; send this one again")
	}
	return &Problem{Status: http.StatusBadRequest, Detail: "the request's body could not be read to its end", cause: err}
}

func (s *Server) readAll(r *http.Request, buf *buffer, limit int64) error {
	buf.b = buf.b[:0]
	if n := r.ContentLength; n >= 0 {
		return s.readKnown(r, buf, int(n))
	}
	for {
		if len(buf.b) == cap(buf.b) {
			if err := s.buffers.grow(buf, 2*cap(buf.b)); err != nil {
				return err
			}
		}
		n, err := r.Body.Read(buf.b[len(buf.b):cap(buf.b)])
		buf.b = buf.b[:len(buf.b)+n]
		if int64(len(buf.b)) > limit {
			return tooLarge("", "the request's body has more than %d bytes, which is all that is taken here", limit)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *Server) readKnown(r *http.Request, buf *buffer, n int) error {
	if err := s.buffers.grow(buf, n); err != nil {
		return err
	}
	buf.b = buf.b[:n]
	_, err := io.ReadFull(r.Body, buf.b)
	return err
}

// checkEncoding refuses compressed bodies instead of storing them as if they were text.
func checkEncoding(r *http.Request) error {
	enc := r.Header.Get(echo.HeaderContentEncoding)
	if enc == "" || strings.EqualFold(enc, "identity") {
		return nil
	}
	return &Problem{Status: http.StatusUnsupportedMediaType, Detail: "Content-Encoding " + clip(enc) + " is not taken; send the body as it is"}
}
