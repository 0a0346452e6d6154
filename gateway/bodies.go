package gateway

import (
	"errors"
	"io"
	"net/http"
)

// Limits of request bodies. Each body may take smallBody. Beyond that, all requests of a protocol share maxBodies,
// because thousands of connections might each send a megabyte without its end.
const (
	maxBodies = 128 << 20
	smallBody = 4 << 10
)

// ErrBodies is returned when request bodies take too much memory.
var ErrBodies = errors.New("too many large requests in progress")

// bounded limits the memory of request bodies.
func (e *Endpoint) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &body{ReadCloser: r.Body, e: e}
		defer func() { e.bodies.Add(-b.size) }()
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// body counts the bytes read from a request.
type body struct {
	io.ReadCloser
	e    *Endpoint
	size int64
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.size += int64(n)
	if b.e.bodies.Add(int64(n)) > maxBodies && b.size > smallBody {
		return n, ErrBodies
	}
	return n, err
}
