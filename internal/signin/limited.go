package signin

import (
	"fmt"
	"io"
	"net/http"
)

// limited is a transport that ends answers of more than maxAnswer bytes with an error.
type limited struct{ *http.Transport }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.Transport.RoundTrip(r)
	if err == nil {
		res.Body = &limitedBody{res.Body, maxAnswer}
	}
	return res, err
}

type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return n, err
}
