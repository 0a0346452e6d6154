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
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, path, body))
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

// TestABodyThatNobodyNeedsTakesNoRoom while its request waits: otherwise 128 clients that send a megabyte with each
// consume would block all producers.
func TestABodyThatNobodyNeedsTakesNoRoom(t *testing.T) {
	e := &Endpoint{}
	e.bounded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Patient(w, r)
		if n, err := r.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("the body is not read completely: %d bytes, %v", n, err)
		}
		if n := e.bodies.Load(); n != 0 {
			t.Errorf("%d bytes of a dropped body are counted", n)
		}
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/",
		strings.NewReader(strings.Repeat("x", 1<<20))))
}
