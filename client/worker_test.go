package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// answering is a server without a network, so that time can be the test's.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func answer(status int, body io.Reader) (*http.Response, error) {
	return &http.Response{StatusCode: status, Body: io.NopCloser(body), Header: http.Header{}}, nil
}

// TestAWorkerGoesOn when the server or a proxy is away for a time, also at the end of a job.
func TestAWorkerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		reserves := 0
		var done, acked time.Time
		c, err := New(Options{URL: "http://wakecall.test", HTTPClient: &http.Client{Transport: answering(
			func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/ack") {
					if time.Since(done) < 40*time.Second {
						return nil, errors.New("connection refused")
					}
					acked = time.Now()
					stop()
					return answer(http.StatusNoContent, http.NoBody)
				}
				switch reserves++; reserves {
				case 1:
					return answer(http.StatusBadGateway, strings.NewReader("<html>"))
				case 2:
					return nil, errors.New("connection refused")
				case 3: // the server is killed while it answers
					return answer(http.StatusOK, iotest.ErrReader(io.ErrUnexpectedEOF))
				case 4:
					return answer(http.StatusServiceUnavailable, strings.NewReader(`{}`))
				case 5:
					until := time.Now().Add(time.Minute).Format(time.RFC3339)
					return answer(http.StatusOK,
						strings.NewReader(`{"jobs":[{"lease":"l","id":"x","leased_until":"`+until+`"}]}`))
				}
				<-r.Context().Done()
				return nil, r.Context().Err()
			})}})
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		w := Worker{Client: c, Topics: []string{"t"}, Failed: func(error) { failed++ }, Handle: func(context.Context,
			*LeasedJob) error {
			done = time.Now()
			return nil
		}}
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
		if failed != 4 || acked.IsZero() {
			t.Errorf("told of %d failures; want 4; acked %v", failed, acked)
		}
	})
}
