package gateway

import (
	"errors"
	"io"
	"net/http"
)

// Limits of request bodies. Beyond smallBody they share maxBodies, over all requests of a protocol that are under way:
// each of thousands of connections may send all but the end of a megabyte.
const (
	maxBodies = 128 << 20
	smallBody = 4 << 10
)

// ErrBodies is returned by a body for which there is no memory now.
var ErrBodies = errors.New("too many large requests are under way")

// bounded bounds the memory of request bodies.
func (e *Endpoint) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := &body{ReadCloser: r.Body, e: e}
		defer func() { e.bodies.Add(-b.size) }()
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// body counts what was read of a request.
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
