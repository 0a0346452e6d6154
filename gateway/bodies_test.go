package gateway

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestRequestBodiesHaveALimitTogether(t *testing.T) {
	e := &Endpoint{}
	errs := map[string]error{}
	var ask func(path string, body io.Reader)
	ask = func(path string, body io.Reader) {
		e.bounded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, errs[r.URL.Path] = io.Copy(io.Discard, r.Body)
			if r.URL.Path != "/hostile" {
				return
			}
			ask("/large", strings.NewReader(strings.Repeat("x", 8<<10)))
			ask("/small", strings.NewReader("small"))
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("PUT", path, body))
	}
	ask("/hostile", endless{})
	ask("/afterwards", strings.NewReader(strings.Repeat("x", 8<<10)))
	for path, want := range map[string]error{
		"/hostile": ErrBodies, "/large": ErrBodies, "/small": nil, "/afterwards": nil,
	} {
		if !errors.Is(errs[path], want) {
			t.Errorf("%s: %v, want %v", path, errs[path], want)
		}
	}
}
